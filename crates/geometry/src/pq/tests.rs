use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::gaussian::Normals;

fn normals(rows: usize, width: usize, seed: u64) -> VectorSet {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normals = Normals::new(&mut rng);
    VectorSet::new(width, (0..rows * width).map(|_| normals.draw() as f32).collect()).unwrap()
}

fn trained(vectors: &VectorSet, subspaces: usize, bits: u32) -> ProductQuantizer {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    ProductQuantizer::train(vectors, subspaces, bits, &mut rng).unwrap()
}

fn squared_error(vectors: &VectorSet, quantizer: &ProductQuantizer) -> f64 {
    let decoded = quantizer.decode(&quantizer.encode(vectors).unwrap()).unwrap();
    let pairs = vectors.values().iter().zip(decoded.values());
    pairs.map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>() / vectors.rows() as f64
}

#[test]
fn every_part_is_coded_by_its_nearest_centroid() {
    let vectors = normals(200, 6, 1);
    let quantizer = trained(&vectors, 3, 5);
    let codes = quantizer.encode(&vectors).unwrap();
    let decoded = quantizer.decode(&codes).unwrap();
    for row in 0..200 {
        for part in 0..3 {
            let x = &vectors.row(row)[2 * part..][..2];
            let distance = |centroid: &[f32]| {
                x.iter().zip(centroid).map(|(x, c)| (f64::from(*x) - f64::from(*c)).powi(2)).sum()
            };
            let distances: Vec<f64> =
                (0..32).map(|at| distance(quantizer.codebook(part).centroid(at))).collect();
            let code = usize::from(codes.code(row)[part]);
            let least = distances.iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(distances[code], least);
            assert_eq!(&decoded.row(row)[2 * part..][..2], quantizer.codebook(part).centroid(code));
        }
    }
}

#[test]
fn rows_that_are_few_and_distinct_come_back_exactly() {
    // Sixteen points in each part: sixteen centroids can be all of them.
    let values = (0..64).flat_map(|row| [(row % 16) as f32, ((row * 7) % 16) as f32 * 3.0]);
    let vectors = VectorSet::new(2, values.collect()).unwrap();
    assert_eq!(squared_error(&vectors, &trained(&vectors, 2, 4)), 0.0);
}

#[test]
fn more_bits_and_more_parts_lose_less() {
    let vectors = normals(600, 8, 2);
    let error = |subspaces, bits| squared_error(&vectors, &trained(&vectors, subspaces, bits));
    assert!(error(2, 6) < error(2, 4) && error(4, 6) < error(2, 6));
    // Sixteen levels of one normal number leave a distortion of 0.0095 at best (Max, 1960).
    let scalar = error(8, 4) / 8.0;
    assert!((0.007..0.012).contains(&scalar), "{scalar}");
}

#[test]
fn packed_bytes_count_bits() {
    let vectors = normals(70, 8, 3);
    let quantizer = trained(&vectors, 4, 6);
    assert_eq!((quantizer.code_bytes(), quantizer.bits(), quantizer.width()), (3, 6, 8));
}

#[test]
fn training_refuses_what_it_cannot_cut_or_fill() {
    let vectors = normals(20, 6, 4);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut train =
        |subspaces, bits| ProductQuantizer::train(&vectors, subspaces, bits, &mut rng).unwrap_err();
    assert_eq!(train(4, 4), QuantizerError::Indivisible { width: 6, subspaces: 4 });
    assert_eq!(train(0, 4), QuantizerError::Indivisible { width: 6, subspaces: 0 });
    assert_eq!(train(3, 3), QuantizerError::Bits { bits: 3 });
    assert_eq!(train(3, 9), QuantizerError::Bits { bits: 9 });
    assert_eq!(train(3, 5), QuantizerError::TooFewRows { rows: 20, centroids: 32 });
}

#[test]
fn vectors_and_codes_of_another_quantiser_are_refused() {
    let vectors = normals(40, 6, 5);
    let (fine, coarse) = (trained(&vectors, 3, 5), trained(&vectors, 3, 4));
    let codes = fine.encode(&vectors).unwrap();
    assert!(matches!(coarse.decode(&codes), Err(QuantizerError::ForeignCodes { .. })));
    let wider = trained(&vectors, 2, 5);
    assert!(matches!(wider.decode(&codes), Err(QuantizerError::ForeignCodes { .. })));
    let metric = QuantizedMetric::Distance;
    assert!(wider.shortlist(&codes, &[0.0; 6], metric, 1).is_err());
    assert!(fine.shortlist(&codes, &[0.0; 5], metric, 1).is_err());
    assert!(fine.encode(&normals(3, 5, 1)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn shortlists_are_those_of_the_decoded_rows(seed in 0_u64..1000, k in 0_usize..130, product: bool) {
        let vectors = normals(120, 6, seed);
        let quantizer = trained(&vectors, 3, 4);
        let codes = quantizer.encode(&vectors).unwrap();
        let decoded = quantizer.decode(&codes).unwrap();
        let query = normals(1, 6, seed + 1);
        let metric = if product { QuantizedMetric::InnerProduct } else { QuantizedMetric::Distance };
        let score = |row: usize| -> f64 {
            let terms = decoded.row(row).iter().zip(query.row(0));
            terms.map(|(&x, &q)| {
                let (x, q) = (f64::from(x), f64::from(q));
                if product { x * q } else { -(x - q).powi(2) }
            }).sum()
        };
        let found = quantizer.shortlist(&codes, query.row(0), metric, k).unwrap();
        prop_assert_eq!(found.len(), k.min(120));
        for hit in &found {
            prop_assert!((hit.score - score(hit.row as usize)).abs() < 1e-9);
        }
        // Rows with the same code tie exactly, and the earlier one comes first.
        for pair in found.windows(2) {
            prop_assert!(pair[0].score > pair[1].score
                || pair[0].score == pair[1].score && pair[0].row < pair[1].row);
        }
        let worst = found.last().map_or(f64::INFINITY, |hit| hit.score);
        for row in (0..120).filter(|row| found.iter().all(|hit| hit.row != *row)) {
            prop_assert!(k == 0 || score(row as usize) <= worst + 1e-9);
        }
    }
}
