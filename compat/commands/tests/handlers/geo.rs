//! Searches by position beside a look at every member: cells with many members are searched by quarters, which must
//! leave out nothing and answer nothing twice. The distances are GEODIST's, which has tests of its own.

use std::collections::BTreeSet;

use crate::common::Server;
use varve_protocol::Resp;
use varve_testkit::Random;

/// Members, far more in a small place than a cell may have before it is quartered.
const MEMBERS: usize = 1500;

/// A position near one of a few places: in a town, on the border where longitudes begin anew, near the pole, anywhere.
fn position(random: &mut Random) -> (f64, f64) {
    let mut around = |middle: f64, far: f64| middle + (random.below(2_000_001) as f64 / 1e6 - 1.0) * far;
    let (longitude, latitude) = match around(0.5, 0.5) {
        p if p < 0.6 => (around(13.4, 0.05), around(52.5, 0.03)),
        p if p < 0.75 => (around(180.0, 0.5), around(-17.0, 0.5)),
        p if p < 0.85 => (around(20.0, 60.0), around(84.0, 1.0)),
        _ => (around(0.0, 180.0), around(0.0, 85.0)),
    };
    (if longitude > 180.0 { longitude - 360.0 } else { longitude }, latitude)
}

/// The bulk strings of a reply of nothing else.
fn texts(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8(reply.to_vec()).expect("names are plain");
    text.split("\r\n").skip(1).filter(|line| !line.is_empty() && !line.starts_with('$')).map(String::from).collect()
}

fn run(server: &mut Server, line: &str) -> Vec<u8> {
    server.run(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn searches_find_each_member_in_the_circle_once() {
    let (mut server, mut random) = (Server::new(Resp::V2), Random::new(31));
    for member in 0..MEMBERS {
        let (longitude, latitude) = position(&mut random);
        run(&mut server, &format!("GEOADD g {longitude:.6} {latitude:.6} m{member}"));
    }
    let (mut found, mut whole) = (0, 0);
    for _ in 0..40 {
        let centre = random.below(MEMBERS);
        let metres: Vec<f64> = (0..MEMBERS)
            .map(|member| {
                let distance = run(&mut server, &format!("GEODIST g m{centre} m{member}"));
                texts(&[b"*\r\n".as_slice(), &distance].concat())[0].parse().expect("a distance")
            })
            .collect();
        let radius = (10_f64.powf(random.below(700) as f64 / 100.0) * 10.0).round() / 10.0 + 0.05;
        let inside = |member: &usize| metres[*member] <= radius;
        let want: BTreeSet<String> = (0..MEMBERS).filter(inside).map(|member| format!("m{member}")).collect();
        let search = format!("GEOSEARCH g FROMMEMBER m{centre} BYRADIUS {radius} m");
        let got = texts(&run(&mut server, &search));
        assert_eq!(got.len(), want.len(), "{search}");
        assert_eq!(got.iter().cloned().collect::<BTreeSet<_>>(), want, "{search}");
        // The nearest come first, and some are some of them.
        let near = texts(&run(&mut server, &format!("{search} COUNT 10")));
        let far = |name: &String| metres[name[1..].parse::<usize>().expect("a number")];
        assert_eq!(near.len(), want.len().min(10));
        assert!(near.iter().map(far).is_sorted(), "{search}");
        assert!(want.iter().filter(|name| !near.contains(name)).all(|name| near.iter().all(|n| far(n) <= far(name))));
        let any = texts(&run(&mut server, &format!("{search} COUNT 7 ANY")));
        assert!(any.len() == want.len().min(7) && any.iter().all(|name| want.contains(name)), "{search}");
        found += got.len();
        whole += usize::from(got.len() == MEMBERS);
    }
    assert!(found > 3000 && whole < 20, "areas of every size were met: {found} {whole}");
}
