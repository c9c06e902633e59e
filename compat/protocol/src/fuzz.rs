//! The body of the fuzz target, as a plain function that ordinary tests call too.

use crate::{OwnedArgs, Parsed, Parser, RequestLimits, Span};

/// The result of a stream of bytes: its requests, the error that ended it, the bytes left over.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    requests: Vec<Vec<Vec<u8>>>,
    error: Option<crate::ProtocolError>,
    left: usize,
}

/// Gives what is missing of the last body to it; the rest of the part.
fn fill<'d>(parser: &mut Parser, bodies: &mut [Vec<u8>], missing: &mut usize, part: &'d [u8]) -> &'d [u8] {
    let (body, part) = part.split_at(part.len().min(*missing));
    if *missing > 0 {
        bodies.last_mut().expect("a body that is missing has begun").extend_from_slice(body);
        *missing -= body.len();
        if *missing == 0 {
            parser.supply();
        }
    }
    part
}

/// Parses `data` as a connection would that receives it in parts of these sizes (repeated; at least 1 each), and that
/// takes missing bodies of `elsewhere` bytes and more out of the input.
pub fn parse_in_parts(data: &[u8], limits: RequestLimits, parts: &[usize], elsewhere: usize) -> Outcome {
    let mut parser = Parser::new(limits);
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut missing = 0;
    let mut outcome = Outcome { requests: Vec::new(), error: None, left: 0 };
    let mut buffer: Vec<u8> = Vec::new();
    let mut spans: Vec<Span> = Vec::new();
    let mut received = 0usize;
    for size in parts.iter().cycle() {
        let part = &data[received..data.len().min(received.saturating_add((*size).max(1)))];
        received += part.len();
        buffer.extend_from_slice(fill(&mut parser, &mut bodies, &mut missing, part));
        let mut from = 0;
        loop {
            spans.clear();
            match parser.parse(&mut buffer[from..], &mut spans) {
                Parsed::Request { consumed } => {
                    let taken: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
                    let outside = crate::LargeSlices(&taken);
                    let args = crate::Args::with_large(&buffer[from..from + consumed], &spans, &outside);
                    let outside = (0..args.len()).filter_map(|i| args.outside(i));
                    assert!(outside.eq(0..bodies.len()), "each body is one argument, in order");
                    outcome.requests.push(OwnedArgs::from(args).args().iter().map(<[u8]>::to_vec).collect());
                    bodies.clear();
                    from += consumed;
                }
                Parsed::Empty { consumed } => {
                    assert!(consumed > 0 && spans.is_empty());
                    from += consumed;
                }
                Parsed::Incomplete { want } => {
                    assert!(want > 0 && spans.is_empty());
                    if let Some(body) = parser.body().filter(|body| body.len >= elsewhere && missing == 0) {
                        let begun = buffer.split_off(from + body.at);
                        assert!(begun.len() < body.len + 2, "it was whole");
                        let (begun, behind) = begun.split_at(begun.len().min(body.len));
                        missing = body.len - begun.len();
                        bodies.push(begun.to_vec());
                        if missing == 0 {
                            parser.supply();
                            buffer.extend_from_slice(behind);
                            continue;
                        }
                    }
                    break;
                }
                Parsed::Error(error) => {
                    outcome.error = Some(error);
                    return outcome;
                }
            }
        }
        buffer.drain(..from);
        assert!(
            parser.held_bytes() <= 8 * size_of::<Span>() * (buffer.len() + 4),
            "memory out of proportion to the input"
        );
        if received == data.len() {
            break;
        }
    }
    outcome.left = buffer.len() + bodies.iter().map(Vec::len).sum::<usize>();
    outcome
}

/// Parses the data whole, byte by byte, and in parts whose sizes its first bytes give; all must come to the same.
pub fn fuzz_one(data: &[u8]) {
    let limits = RequestLimits {
        bulk_max: 1 << 16,
        args_max: 1 << 10,
        inline_max: 64,
        unauthenticated: data.first().is_some_and(|b| b & 1 != 0),
    };
    let whole = parse_in_parts(data, limits, &[usize::MAX], usize::MAX);
    assert_eq!(whole, parse_in_parts(data, limits, &[1], usize::MAX), "byte by byte");
    let sizes: Vec<usize> = data.iter().take(8).map(|b| usize::from(*b)).chain([3]).collect();
    assert_eq!(whole, parse_in_parts(data, limits, &sizes, usize::MAX), "in parts of {sizes:?}");
    for elsewhere in [0, 1, 5] {
        assert_eq!(whole, parse_in_parts(data, limits, &[1], elsewhere), "bodies from {elsewhere} elsewhere, by bytes");
        assert_eq!(whole, parse_in_parts(data, limits, &sizes, elsewhere), "bodies elsewhere, in parts of {sizes:?}");
    }
}
