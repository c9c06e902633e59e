//! Programs of random bytes: what must hold after any program, without the fuzzer's search for new ways.

use varve_base::rng::Rng;

/// Programs that are tried.
const PROGRAMS: u64 = 2_000;

#[test]
fn programs_of_random_bytes_leave_a_sound_state() {
    for seed in 0..PROGRAMS {
        let mut random = Rng::seeded(seed);
        let len = random.below(300);
        let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        crate::programs::try_out(&bytes);
    }
}

/// The writer's programs are programs: nearly all of them are compiled, or they would test the parser alone.
#[test]
fn programs_are_compiled() {
    let mut wrong = 0;
    for seed in 0..PROGRAMS {
        let mut random = Rng::seeded(seed);
        let bytes: Vec<u8> = (0..random.below(300)).map(|_| random.below(256) as u8).collect();
        let compiled = crate::host::state().compile(crate::programs::program(&bytes).as_bytes());
        wrong += u64::from(compiled.is_err());
    }
    assert!(wrong <= PROGRAMS / 100, "{wrong} of {PROGRAMS} are not compiled");
}
