//! The order of full scores is the order of raw scores.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use shard_geometry::gaussian::Normals;
use shard_geometry::{
    Cells, OrthogonalKey, Pca, Split, StructuredKey, Transform, VectorSet, exact_scores,
};

const ROWS: usize = 400;
const WIDTH: usize = 48;
const CELLS: usize = 7;

/// Rows around a mean far from the origin, with falling spread; of unit length or of lengths a hundredfold apart.
fn vectors(rows: usize, normalised: bool, rng: &mut impl Rng) -> VectorSet {
    let mut normals = Normals::new(rng);
    let mut values = Vec::new();
    for row in 0..rows {
        let x: Vec<f64> =
            (0..WIDTH).map(|at| 0.4 + normals.draw() / (1.0 + 0.2 * at as f64)).collect();
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = if normalised { 1.0 / norm } else { 10f64.powf((row % 5) as f64 / 2.0) };
        values.extend(x.iter().map(|x| (x * scale) as f32));
    }
    VectorSet::new(WIDTH, values).unwrap()
}

fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `<u_q, u_i> + <T r_q, T r_i>` for every row, the query's coordinates given.
fn full_scores(
    query: &[f64],
    split: Split,
    rows: &[f64],
    stored: &[Vec<f64>],
    keys: &[Transform],
    cell: &[u32],
) -> Vec<f64> {
    let (prefix, residual) = split.halves(query);
    let tokens: Vec<Vec<f64>> = keys
        .iter()
        .map(|key| {
            let mut token = residual.to_vec();
            key.apply(&mut token);
            token
        })
        .collect();
    rows.chunks_exact(WIDTH)
        .zip(stored)
        .zip(cell)
        .map(|((row, stored), &cell)| {
            dot(prefix, split.halves(row).0) + dot(&tokens[cell as usize], stored)
        })
        .collect()
}

#[test]
fn full_scores_have_the_complete_order_of_raw_scores_and_centring_the_query_breaks_it() {
    for (normalised, structured) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let documents = vectors(ROWS, normalised, &mut rng);
        let queries = vectors(20, normalised, &mut rng);
        let pca = Pca::fit(&documents).unwrap();
        let split = Split::new(WIDTH, WIDTH / 4).unwrap();
        let mut rows = vec![0.0; ROWS * WIDTH];
        pca.project_rows(documents.values(), &mut rows);
        let prefixes: Vec<f32> = rows
            .chunks_exact(WIDTH)
            .flat_map(|row| split.halves(row).0.iter().map(|&x| x as f32))
            .collect();
        let (_, cell) = Cells::fit(&prefixes, split.prefix(), CELLS, &mut rng).unwrap();
        let keys: Vec<Transform> = (0..CELLS)
            .map(|_| {
                if structured {
                    Transform::Structured(StructuredKey::sample(split.residual(), &mut rng))
                } else {
                    Transform::Orthogonal(OrthogonalKey::sample(split.residual(), &mut rng))
                }
            })
            .collect();
        let stored: Vec<Vec<f64>> = rows
            .chunks_exact(WIDTH)
            .zip(&cell)
            .map(|(row, &cell)| {
                let mut residual = split.halves(row).1.to_vec();
                keys[cell as usize].apply(&mut residual);
                residual
            })
            .collect();

        let mut disturbed = 0;
        for query in 0..queries.rows() {
            let query = queries.row(query);
            let raw = exact_scores(&documents, query).unwrap();
            let score =
                |coordinates: &[f64]| full_scores(coordinates, split, &rows, &stored, &keys, &cell);

            let full = score(&pca.uncentred(query));
            assert_eq!(order(&full), order(&raw));
            // The two differ by q . mu, the same for every row.
            let shift: f64 =
                query.iter().zip(pca.mean()).map(|(&q, mean)| f64::from(q) * mean).sum();
            let size = raw.iter().fold(0.0f64, |size, score| size.max(score.abs()));
            assert!(
                full.iter().zip(&raw).all(|(full, raw)| (full + shift - raw).abs() < 1e-12 * size)
            );

            let centred = score(&pca.centred(query));
            disturbed += usize::from(order(&centred)[..10] != order(&raw)[..10]);
        }
        assert!(
            disturbed > queries.rows() / 2,
            "centring changed the top ten of {disturbed} queries only"
        );
    }
}
