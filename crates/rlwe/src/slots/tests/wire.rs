//! Bytes: sizes, round trips, what is refused.

use proptest::prelude::*;

use super::entropy;
use crate::slots::rns::Rns;
use crate::slots::*;

#[test]
fn sizes_are_those_of_the_paper_or_smaller() {
    let paper = SlotsParameters::paper();
    // SEAL: 10.03 MB for 30 queries, 30.13 MB for 128 responses, 34.08 MB of context.
    assert_eq!(paper.query_bytes(), 2 * 8192 * (8 + 5 + 5));
    assert!(paper.query_bytes() <= 10_030_000 / 30);
    assert_eq!(paper.response_bytes(), 2 * 8192 * (8 + 5));
    assert!(paper.response_bytes() <= 30_130_000 / 128);
    assert_eq!(paper.public_key_bytes(), 2 * 8192 * (8 + 5 + 5 + 8));
    assert_eq!(paper.galois_key_bytes(), 2 * 2 * 8192 * (8 + 5 + 8));
    assert!(paper.server_context_bytes(512) <= 34_080_000);
    let (_, server) = ClientContext::generate(&paper, 512, entropy(6)).unwrap();
    assert_eq!(server.to_bytes().len(), paper.server_context_bytes(512));
}

/// Residues are sent as evaluations, so the primes and the roots are part of the format.
#[test]
fn primes_and_roots_of_the_papers_set_are_pinned() {
    let parameters = SlotsParameters::paper();
    let rns = Rns::new(&parameters);
    let mut x = vec![0; 8192];
    x[1] = 1;
    let roots: Vec<u64> = rns.embed(&x, rns.rings().iter()).rows().map(|row| row[0]).collect();
    assert_eq!(
        parameters.primes(),
        [
            1_152_921_504_606_830_593,
            1_099_511_480_321,
            1_099_510_890_497,
            1_152_921_504_606_748_673
        ]
    );
    assert_eq!(
        roots,
        [527_760_526_715_669_589, 953_705_698_595, 908_690_616_902, 45_084_602_251_341_827]
    );
}

#[test]
fn a_server_context_read_from_bytes_writes_the_same_bytes() {
    let parameters = SlotsParameters::toy(256, &[60, 40, 40, 60], 40);
    let (_, server) = ClientContext::generate(&parameters, 8, entropy(7)).unwrap();
    let bytes = server.to_bytes();
    let again = ServerContext::from_bytes(&parameters, 8, &bytes).unwrap();
    assert_eq!(again.span(), 8);
    assert_eq!(again.to_bytes(), bytes);
}

#[test]
fn the_secret_does_not_occur_in_what_the_server_is_given() {
    let parameters = SlotsParameters::toy(256, &[60, 40, 40, 60], 40);
    let (client, server) = ClientContext::generate(&parameters, 8, entropy(8)).unwrap();
    let bytes = server.to_bytes();
    let words: std::collections::HashSet<&[u8]> = bytes.windows(8).collect();
    // Rows of 60-bit primes, where a chance hit among a few hundred thousand windows is remote.
    for prime in [0, 3] {
        for word in client.secret.row(prime) {
            assert!(!words.contains(&word.to_le_bytes()[..]));
        }
    }
    // The search itself works: the public key's words are found.
    assert!(words.contains(&server.public.b.row(0)[17].to_le_bytes()[..]));
    assert_eq!(format!("{client:?}"), "ClientContext(..)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn decoders_refuse_or_read_any_bytes_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        length in 0_usize..4000,
        low in any::<bool>(),
    ) {
        let parameters = SlotsParameters::toy(64, &[60, 40, 60], 40);
        let layout = SlotsLayout::new(parameters.clone(), 4, 2).unwrap();
        let (client, context) = SlotsClient::generate(layout.clone(), entropy(12)).unwrap();
        let lengths = [
            length,
            parameters.query_bytes(),
            parameters.response_bytes(),
            parameters.server_context_bytes(4),
        ];
        bytes.push(0);
        for length in lengths {
            // Clearing the top bits of every byte makes residues that are in range.
            let mask = if low { 0x07 } else { 0xff };
            let bytes: Vec<u8> =
                bytes.iter().map(|b| b & mask).cycle().take(length).collect();
            let read = SlotsServer::from_bytes(layout.clone(), &bytes);
            let server = read.unwrap_or_else(|_| {
                let context = ServerContext::from_bytes(&parameters, 4, &context.to_bytes());
                SlotsServer::new(layout.clone(), context.unwrap()).unwrap()
            });
            let candidate = Candidate { cell: 1, row: &[1.0; 4], prefix_score: 0.5 };
            let scored = server.score(std::slice::from_ref(&bytes), &[candidate]);
            if length != parameters.query_bytes() {
                prop_assert!(matches!(scored, Err(SlotsError::Wire(_))));
            }
            let opened = client.open(&bytes, 1);
            if length != parameters.response_bytes() {
                prop_assert!(matches!(opened, Err(SlotsError::Wire(_))));
            }
        }
    }
}

#[test]
fn truncated_and_out_of_range_bytes_are_refused_with_figures() {
    let parameters = SlotsParameters::toy(64, &[60, 40, 60], 40);
    let (client, _) = ClientContext::generate(&parameters, 1, entropy(13)).unwrap();
    let good = client.encrypt(&[vec![1.0]], entropy(14)).unwrap()[0].to_bytes(&parameters);
    assert!(SlotsCiphertext::query_from_bytes(&parameters, &good).is_ok());
    let (expected, actual) = (good.len(), good.len() - 1);
    assert_eq!(
        SlotsCiphertext::query_from_bytes(&parameters, &good[..actual]).unwrap_err(),
        SlotsWireError::Length { expected, actual }
    );
    let prime = parameters.primes()[1];
    for (value, refused) in [(prime, true), (prime - 1, false)] {
        let mut bytes = good.clone();
        bytes[64 * 8..64 * 8 + 5].copy_from_slice(&value.to_le_bytes()[..5]);
        let read = SlotsCiphertext::query_from_bytes(&parameters, &bytes);
        assert_eq!(read.err(), refused.then_some(SlotsWireError::Residue { prime, value }));
    }
}

#[test]
fn malformed_requests_are_refused() {
    let parameters = SlotsParameters::toy(64, &[60, 40, 60], 40);
    let layout = SlotsLayout::new(parameters.clone(), 5, 2).unwrap();
    assert_eq!(
        SlotsLayout::new(parameters.clone(), 5, 5),
        Err(SlotsError::Slots { slots: 32, actual: 40 })
    );
    for (width, blocks) in [(0, 1), (5, 0), (33, 1), (usize::MAX, 2)] {
        assert!(SlotsLayout::new(parameters.clone(), width, blocks).is_err());
    }
    let (client, context) = SlotsClient::generate(layout.clone(), entropy(15)).unwrap();
    let wrong = |cells: &[Vec<f64>]| client.encrypt_queries(cells, entropy(16)).unwrap_err();
    assert_eq!(wrong(&[vec![0.0; 4]]), SlotsError::Width { expected: 5, actual: 4 });
    assert!(matches!(wrong(&[vec![f64::NAN; 5]]), SlotsError::Norm { .. }));
    assert!(matches!(wrong(&[vec![1e12; 5]]), SlotsError::Norm { .. }));

    let other = SlotsLayout::new(SlotsParameters::toy(128, &[60, 40, 60], 40), 5, 2).unwrap();
    let foreign = ClientContext::generate(&parameters, 8, entropy(20)).unwrap().1;
    assert_eq!(SlotsServer::new(other.clone(), foreign).unwrap_err(), SlotsError::ParameterSet);

    let server = SlotsServer::new(layout, context).unwrap();
    let sent = client.encrypt_queries(&[vec![0.5; 5]], entropy(17)).unwrap();
    let score = |cell, row: &[f64], prefix_score| {
        server.score(&sent, &[Candidate { cell, row, prefix_score }])
    };
    assert!(score(0, &[1.0; 5], 0.0).is_ok());
    assert_eq!(score(2, &[1.0; 5], 0.0), Err(SlotsError::Cell { cell: 2, cells: 2 }));
    assert_eq!(score(0, &[1.0; 6], 0.0), Err(SlotsError::Width { expected: 5, actual: 6 }));
    assert!(matches!(score(0, &[f64::INFINITY; 5], 0.0), Err(SlotsError::Norm { .. })));
    assert!(matches!(score(0, &[1.0; 5], f64::NAN), Err(SlotsError::Score { .. })));

    let fresh = SlotsCiphertext::query_from_bytes(&parameters, &sent[0]).unwrap();
    let level = SlotsError::Level { expected: 1, actual: 2 };
    assert_eq!(server.context.rotate(&fresh, 1).unwrap_err(), level);
    let rescaled = server.context.rescale(fresh).unwrap();
    assert_eq!(server.context.rotate(&rescaled, 3).unwrap_err(), SlotsError::Rotation(3));
    assert_eq!(server.context.rotate(&rescaled, 8).unwrap_err(), SlotsError::Rotation(8));
    assert!(server.context.rotate_and_sum(rescaled.clone(), 16).is_err());
    assert!(server.context.rescale(rescaled).is_err());

    let (stranger, _) = SlotsClient::generate(other, entropy(21)).unwrap();
    let theirs = stranger.encrypt_queries(&[vec![0.5; 5]], entropy(22)).unwrap();
    let theirs = SlotsCiphertext::query_from_bytes(stranger.layout().parameters(), &theirs[0]);
    assert_eq!(
        server.context.rescale(theirs.unwrap()).unwrap_err(),
        SlotsError::Degree { expected: 64, actual: 128 }
    );
}
