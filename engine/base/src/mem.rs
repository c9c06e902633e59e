//! Memory straight from the system: ranges that are reserved first and opened later, and zeroed tables.
//!
//! ```text
//! reserve --> PROT_NONE ---open---> readable, writable, zero ---release---> the same range, zero, no memory behind
//! zeroed  ------------------------> readable, writable, zero ---release---> ...
//! ```
//!
//! Nothing here is counted or pooled: dropping a mapping gives it back at once. Only where the system refuses that, since it
//! would split a mapping and there are too many, the memory goes back and the addresses wait for the next mapping. All ranges are in bytes, relative to
//! the mapping's base, and are multiples of the page size (4096).

use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, MutexGuard};

/// The page size that ranges are multiples of. x86-64 has no other base page.
pub const PAGE_BYTES: usize = 4096;

/// An anonymous private mapping.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// All of it is readable and writable: its addresses serve for another mapping.
    writable: bool,
}

/// Addresses whose unmapping the system has refused; no memory is behind them.
static LEFT: Mutex<Vec<(NonNullAddress, usize)>> = Mutex::new(Vec::new());

/// The begin of a mapping that nobody has any more.
#[derive(Clone, Copy, Debug)]
struct NonNullAddress(NonNull<u8>);

// SAFETY: an address that is owned by the list that it is in.
unsafe impl Send for NonNullAddress {}

// SAFETY: a mapping owns its range of addresses as a Box owns its memory; it gives out raw pointers only.
unsafe impl Send for Mapping {}
// SAFETY: as above; `open` and `release` are system calls that are safe to make from any thread.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of addresses without any memory: touching them is a fault until they are opened.
    pub fn reserve(len: usize) -> io::Result<Mapping> {
        Self::map(len, libc::PROT_NONE, libc::MAP_NORESERVE)
    }

    /// Maps `len` bytes that read as zero and can be written.
    pub fn zeroed(len: usize) -> io::Result<Mapping> {
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE, 0)
    }

    /// Maps `len` bytes that read as zero and can be written, of which only some are going to be: no memory is promised
    /// for the others.
    pub fn sparse(len: usize) -> io::Result<Mapping> {
        Self::map(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_NORESERVE)
    }

    fn map(len: usize, protection: libc::c_int, more_flags: libc::c_int) -> io::Result<Mapping> {
        assert!(len > 0, "an empty mapping");
        let len = len.next_multiple_of(PAGE_BYTES);
        let writable = protection & libc::PROT_WRITE != 0;
        if let Some(base) = writable.then(|| take_left(len)).flatten() {
            return Ok(Mapping { base, len, writable });
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | more_flags;
        // SAFETY: a new anonymous mapping at an address of the system's choice touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).expect("the system never maps address zero");
        Ok(Mapping { base, len, writable })
    }

    /// Makes `range` readable and writable. Fails when the system has no memory to promise.
    pub fn open(&self, range: Range<usize>) -> io::Result<()> {
        let (at, len) = self.part(range);
        // SAFETY: `part` checked that the range lies inside this mapping.
        let rc = unsafe { libc::mprotect(at.cast(), len, libc::PROT_READ | libc::PROT_WRITE) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Gives the memory behind `range` back; the range stays mapped and reads as zero.
    ///
    /// # Safety
    /// Nobody may hold a Rust reference into the range, and nobody may rely on what it held.
    pub unsafe fn release(&self, range: Range<usize>) {
        let (at, len) = self.part(range);
        // SAFETY: inside this mapping by `part`; the caller vouches that nobody needs the contents.
        unsafe { discard(at, len) };
    }

    /// Asks for the memory behind `range` to be in place before it is touched, in one system call. A hint.
    pub fn populate(&self, range: Range<usize>) {
        let (at, len) = self.part(range);
        // SAFETY: inside this mapping by `part`.
        unsafe { populate(at, len) };
    }

    /// Has memory put behind each page of `range` as a write there would, without changing what it holds. Other threads may
    /// read and write there meanwhile, and may change the mapping of other ranges: `populate` would keep them from that.
    pub fn touch(&self, range: Range<usize>) {
        let (at, len) = self.part(range);
        // SAFETY: inside this mapping by `part`.
        unsafe { touch(at, len) };
    }

    /// Asks for huge pages in a range, where whole ones fit, or for small ones. A hint: a kernel without huge pages, or
    /// told not to use them, refuses. What is there already changes in the kernel's own time.
    pub fn prefer_huge_pages(&self, range: Range<usize>, huge: bool) {
        let (at, len) = self.part(range);
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the mapping's own range; the advice changes no contents.
        unsafe { libc::madvise(at.cast(), len, advice) };
    }

    /// Leaves what is in the mapping out of core dumps of the process, or has it in them, as it is at first.
    ///
    /// # Errors
    /// The system's.
    pub fn set_in_core_dumps(&self, has: bool) -> io::Result<()> {
        let advice = if has { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
        // SAFETY: the mapping's own range; the advice changes no contents.
        let rc = unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, advice) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The first address.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes of addresses, a multiple of the page size.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    fn part(&self, range: Range<usize>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES), "{range:?}");
        // SAFETY: the start was just checked to lie inside the mapping.
        (unsafe { self.base.as_ptr().add(range.start) }, range.end - range.start)
    }
}

/// Numbers that are zero at first, in a mapping of their own: however many they are, none is touched before it is used.
#[derive(Debug)]
pub struct ZeroedNumbers(Mapping);

impl ZeroedNumbers {
    /// `count` numbers at least, whole pages of them.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn new(count: usize) -> io::Result<ZeroedNumbers> {
        Mapping::zeroed(count * size_of::<AtomicU64>()).map(ZeroedNumbers)
    }
}

impl Deref for ZeroedNumbers {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping begins at a page, is readable and writable, zero at first, and lives as long as the reference;
        // nothing but these atomics ever leads into it.
        unsafe { std::slice::from_raw_parts(self.0.base().cast::<AtomicU64>(), self.0.len() / size_of::<AtomicU64>()) }
    }
}

/// Bytes of [`zeros`].
const ZEROS_BYTES: usize = 4 << 20;

/// 4 MB of zeros that take no memory: pages that nobody ever writes. None at all if the system refuses the addresses.
pub fn zeros() -> &'static [u8] {
    static ZEROS: OnceLock<Option<Mapping>> = OnceLock::new();
    match ZEROS.get_or_init(|| Mapping::sparse(ZEROS_BYTES).ok()) {
        // SAFETY: readable pages of a mapping that lives as long as the process, and nobody writes to it.
        Some(mapping) => unsafe { std::slice::from_raw_parts(mapping.base(), ZEROS_BYTES) },
        None => &[],
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody else can unmap; a pointer into it that is still held breaks its contract.
        let rc = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        if rc != 0 {
            // The kernel has merged it with its neighbours, and unmapping the middle would make two mappings of one, which
            // it refuses at `vm.max_map_count`.
            // SAFETY: as above.
            unsafe { discard(self.base.as_ptr(), self.len) };
            if self.writable {
                left().push((NonNullAddress(self.base), self.len));
            }
        }
    }
}

fn left() -> MutexGuard<'static, Vec<(NonNullAddress, usize)>> {
    LEFT.lock()
}

/// Addresses of `len` bytes among those that could not be unmapped.
fn take_left(len: usize) -> Option<NonNull<u8>> {
    let mut left = left();
    let at = left.iter().position(|&(_, bytes)| bytes >= len)?;
    let (base, bytes) = left.swap_remove(at);
    if bytes > len {
        // SAFETY: `len` is below the length of the range.
        left.push((NonNullAddress(unsafe { base.0.add(len) }), bytes - len));
    }
    Some(base.0)
}

/// Gives the memory behind some pages back to the system; they stay mapped and read as zero.
///
/// # Safety
/// The pages belong to the caller, who holds no Rust reference into them and does not rely on what they held.
pub(crate) unsafe fn discard(at: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    let rc = unsafe { libc::madvise(at.cast(), len, libc::MADV_DONTNEED) };
    assert!(rc == 0, "madvise of {len} bytes: {}", io::Error::last_os_error());
}

/// Asks for the memory behind some pages to be in place before it is touched, in one system call. A hint: a kernel without
/// MADV_POPULATE_WRITE, one before 5.14, refuses, which is as good.
///
/// # Safety
/// The pages belong to the caller. What they hold does not change.
pub(crate) unsafe fn populate(at: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    unsafe { libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE) };
}

/// Has memory put behind some pages as a write there would. A system call that populates holds the lock of all mappings until
/// the pages are there: 4 ms for a huge page of a virtual machine whose host has to find it, in which another thread's
/// allocator cannot grow its heap. A fault holds the lock of its own mapping only, from Linux 6.4 on.
///
/// # Safety
/// The pages belong to the caller, and are readable and writable. What they hold does not change.
unsafe fn touch(at: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for page in (0..len).step_by(PAGE_BYTES) {
        // SAFETY: inside the pages; the processor takes the byte, adds no bit and puts it back in one step, so another
        // thread's write is never lost.
        unsafe { std::arch::asm!("lock or byte ptr [{}], 0", in(reg) at.add(page), options(nostack)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: passed on to the caller.
    unsafe {
        populate(at, len)
    };
}

/// Asks for the cache line at `address`. Never faults, whatever the address.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads nothing that the program can see and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A place to be fetched into the cache, and never followed. A prefetch waits for the translation of its address: where
/// many are to be fetched, they are found first and fetched one right behind the other, so that the waits overlap.
#[derive(Clone, Copy, Debug)]
pub struct Line(usize);

impl Line {
    /// The line in which this lies.
    #[inline(always)]
    pub fn of<T>(address: *const T) -> Line {
        Line(address.addr())
    }

    /// Asks for it.
    #[inline(always)]
    pub fn fetch(self) {
        prefetch(std::ptr::without_provenance::<u8>(self.0));
    }

    /// Asks for it and for the one behind it.
    #[inline(always)]
    pub fn fetch_pair(self) {
        self.fetch();
        Line(self.0.wrapping_add(64)).fetch();
    }
}

/// True if both are the same bytes. Short ones are compared here, where `==` would call a function for any length.
#[inline(always)]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        4..=7 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        17..=32 => a.first_chunk::<16>() == b.first_chunk() && a.last_chunk::<16>() == b.last_chunk(),
        _ => a == b,
    }
}

/// Most bytes of a text that [`push_framed`] appends.
pub const FRAMED_MAX: usize = 32;
/// Bytes of the longest head of such a text.
const FRAME_BYTES: usize = 8;
/// Bytes that [`push_framed`] wants behind a buffer's end.
pub const FRAMED_ROOM: usize = FRAME_BYTES + FRAMED_MAX + 2;

/// Appends a head, of which the first `head.1` bytes count, at most [`FRAMED_MAX`] bytes, and two more, by moves of fixed
/// sizes: a third of what three copies of any length take.
///
/// # Panics
/// If the head or the bytes are longer, or the buffer has no room for [`FRAMED_ROOM`] bytes.
#[inline(always)]
pub fn push_framed(buf: &mut Vec<u8>, head: ([u8; FRAME_BYTES], usize), bytes: &[u8], end: [u8; 2]) {
    let (len, count) = (buf.len(), bytes.len());
    assert!(head.1 <= FRAME_BYTES && count <= FRAMED_MAX, "a head of {} bytes before {count}", head.1);
    assert!(buf.capacity() - len >= FRAMED_ROOM, "{} bytes of room", buf.capacity() - len);
    // SAFETY: the buffer has room for a whole head, the bytes and the end, in this order, so each write is in it: a head is
    // written whole, and what is over lies under the bytes and the end. All bytes up to the new length are written.
    unsafe {
        let at = buf.as_mut_ptr().add(len);
        at.cast::<[u8; FRAME_BYTES]>().write(head.0);
        let at = at.add(head.1);
        copy_short(bytes, at);
        at.add(count).cast::<[u8; 2]>().write(end);
        buf.set_len(len + head.1 + count + 2);
    }
}

/// Copies at most [`FRAMED_MAX`] bytes.
///
/// # Safety
/// `bytes.len()` bytes may be written at `to`; none of them lies in `bytes`.
#[inline(always)]
unsafe fn copy_short(bytes: &[u8], to: *mut u8) {
    // SAFETY: each arm has as many bytes as it copies from either end, or more; the rest is the caller's.
    unsafe {
        match bytes.len() {
            16.. => copy_ends::<16>(bytes, to),
            8.. => copy_ends::<8>(bytes, to),
            4.. => copy_ends::<4>(bytes, to),
            _ => bytes.iter().enumerate().for_each(|(nth, &byte)| to.add(nth).write(byte)),
        }
    }
}

/// Copies `N` to 2 `N` bytes: the first `N` and the last `N`, of which some may be the same.
///
/// # Safety
/// `bytes` has `N` to 2 `N` bytes. `bytes.len()` bytes may be written at `to`; none of them lies in `bytes`.
#[inline(always)]
unsafe fn copy_ends<const N: usize>(bytes: &[u8], to: *mut u8) {
    debug_assert!((N..=2 * N).contains(&bytes.len()), "{} bytes in two moves of {N}", bytes.len());
    let last = bytes.len() - N;
    // SAFETY: both ranges of `N` bytes lie in `bytes`, and so do those behind `to` in what the caller says.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, N);
        std::ptr::copy_nonoverlapping(bytes.as_ptr().add(last), to.add(last), N);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_is_written_and_released() {
        let map = Mapping::zeroed(10_000).unwrap();
        assert_eq!(map.len(), 12_288);
        let bytes = map.base();
        // SAFETY: inside the mapping, no references held.
        unsafe {
            assert_eq!(bytes.add(9_999).read(), 0);
            bytes.add(1).write(7);
            bytes.add(4097).write(8);
            map.release(4096..8192);
            assert_eq!((bytes.add(1).read(), bytes.add(4097).read()), (7, 0));
        }
    }

    /// The bytes of a mapping that have memory behind them.
    fn resident_bytes(map: &Mapping) -> usize {
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begin = format!("{:x}-", map.base() as usize);
        let line = all.lines().skip_while(|line| !line.starts_with(&begin)).find(|line| line.starts_with("Rss:"));
        line.unwrap().split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn numbers_are_zero_and_cost_what_is_used() {
        use std::sync::atomic::Ordering::Relaxed;
        let numbers = ZeroedNumbers::new((64 << 20) + 1).unwrap();
        assert_eq!(numbers.len(), (64 << 20) + 512);
        // A mapping beside it may have become one with it.
        let _apart = numbers.0.set_in_core_dumps(false);
        numbers[64 << 20].store(7, Relaxed);
        assert_eq!((numbers[0].load(Relaxed), numbers[64 << 20].load(Relaxed)), (0, 7));
        assert!(resident_bytes(&numbers.0) <= 4 << 20, "{}", resident_bytes(&numbers.0));
    }

    #[test]
    fn zeros_are_zero() {
        assert!(zeros().len() == ZEROS_BYTES && zeros().iter().all(|&byte| byte == 0));
        assert_eq!(zeros().as_ptr(), zeros().as_ptr());
    }

    /// The kernel's flags of a mapping: `dd` is one that dumps leave out.
    fn flags(map: &Mapping) -> String {
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begin = format!("{:x}-", map.base() as usize);
        let lines = all.lines().skip_while(|line| !line.starts_with(&begin));
        lines.skip(1).find(|line| line.starts_with("VmFlags")).unwrap().to_owned()
    }

    #[test]
    fn a_mapping_is_left_out_of_core_dumps_in_the_parts_that_are_opened_later_as_well() {
        let map = Mapping::reserve(1 << 30).unwrap();
        assert!(!flags(&map).contains(" dd"));
        map.set_in_core_dumps(false).unwrap();
        map.open(0..1 << 20).unwrap();
        assert!(flags(&map).contains(" dd"), "{}", flags(&map));
        map.set_in_core_dumps(true).unwrap();
        assert!(!flags(&map).contains(" dd"));
    }

    #[test]
    fn reserved_opens_in_steps() {
        let map = Mapping::reserve(1 << 40).unwrap();
        for step in 0..4usize {
            let at = step << 21;
            map.open(at..at + (1 << 21)).unwrap();
            map.populate(at..at + PAGE_BYTES);
            // SAFETY: just opened.
            unsafe { map.base().add(at + 5).write(1) };
        }
    }

    /// Pages of a range that have memory.
    fn resident(map: &Mapping, range: Range<usize>) -> usize {
        let mut pages = vec![0u8; range.len() / PAGE_BYTES];
        // SAFETY: the mapping's own range, and a byte for each page of it.
        let rc = unsafe { libc::mincore(map.base().add(range.start).cast(), range.len(), pages.as_mut_ptr()) };
        assert_eq!(rc, 0, "{}", io::Error::last_os_error());
        pages.iter().filter(|&&page| page & 1 != 0).count()
    }

    #[test]
    fn touched_pages_have_memory_and_what_they_held() {
        let map = Mapping::reserve(1 << 30).unwrap();
        map.prefer_huge_pages(0..map.len(), false);
        map.open(0..64 * PAGE_BYTES).unwrap();
        // SAFETY: just opened.
        unsafe { map.base().add(20 * PAGE_BYTES).write(7) };
        let range = 16 * PAGE_BYTES..48 * PAGE_BYTES;
        assert_eq!(resident(&map, range.clone()), 1);
        map.touch(range.clone());
        assert_eq!((resident(&map, range), resident(&map, 48 * PAGE_BYTES..64 * PAGE_BYTES)), (32, 0));
        // SAFETY: opened, and nobody writes.
        let held = unsafe { std::slice::from_raw_parts(map.base(), 64 * PAGE_BYTES) };
        assert_eq!(held.iter().position(|&byte| byte != 0), Some(20 * PAGE_BYTES));
        assert_eq!(held[20 * PAGE_BYTES], 7);
    }

    #[test]
    #[should_panic(expected = "of 4096 bytes")]
    fn range_outside_is_refused() {
        let _ = Mapping::zeroed(1).unwrap().open(0..8192);
    }

    #[test]
    fn equal_bytes_are_equal_at_every_length() {
        let bytes: Vec<u8> = (0..70).collect();
        for len in 0..bytes.len() {
            let mut other = bytes[..len].to_vec();
            assert!(equal(&bytes[..len], &other) && !equal(&bytes[..len + 1], &other));
            for at in 0..len {
                other[at] ^= 1;
                assert!(!equal(&bytes[..len], &other), "byte {at} of {len}");
                other[at] ^= 1;
            }
        }
    }

    #[test]
    fn framed_bytes_are_whole_at_every_length() {
        let bytes: Vec<u8> = (1..=FRAMED_MAX as u8).collect();
        for (count, head) in (0..=FRAMED_MAX).flat_map(|count| (0..=FRAME_BYTES).map(move |head| (count, head))) {
            let mut buf = Vec::with_capacity(3 + FRAMED_ROOM);
            buf.extend_from_slice(b"old");
            push_framed(&mut buf, (*b"abcdefgh", head), &bytes[..count], *b"YZ");
            assert_eq!(buf, [b"old", &b"abcdefgh"[..head], &bytes[..count], b"YZ"].concat());
        }
    }

    #[test]
    #[should_panic(expected = "bytes of room")]
    fn framed_bytes_want_room() {
        push_framed(&mut Vec::new(), ([0; FRAME_BYTES], 1), b"", *b"YZ");
    }

    #[test]
    fn prefetch_of_anything() {
        prefetch(std::ptr::null::<u8>());
        prefetch(usize::MAX as *const u8);
    }
}
