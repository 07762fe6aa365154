use shard_protocol::{Leak, declassify};

use super::*;

const EPOCH: SaltedEpoch = epoch(1);

const fn epoch(number: u64) -> SaltedEpoch {
    SaltedEpoch { epoch: Epoch(number), salt: [9; SALT_BYTES] }
}

fn schedule(epoch: SaltedEpoch) -> KeySchedule {
    KeySchedule::new(&MasterSecret::from_bytes(&[7; 32]), &epoch)
}

fn image(key: &Transform) -> Vec<f64> {
    let mut x: Vec<f64> = (0..key.width()).map(|i| 1.0 / (i as f64 + 1.0)).collect();
    key.apply(&mut x);
    x
}

fn fingerprint(values: &[f64]) -> u64 {
    // FNV-1a over the exact bits.
    values
        .iter()
        .flat_map(|v| v.to_bits().to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn row() -> Row {
    Row {
        cell: declassify(CellHandle(3), Leak::CellMembership),
        handle: RowHandle(5),
        coordinates: vec![1, -2, i32::MAX],
    }
}

/// Master secret of 32 bytes 7, epoch 1, salt of 32 bytes 9, width 288, the image of `x_i = 1 / (i + 1)`. These
/// figures must hold on every machine and in every later version: rows on servers depend on
/// them.
#[test]
fn golden_keys_and_names_do_not_change() {
    let keys = schedule(EPOCH);
    let orthogonal = keys.derive(TransformKind::Orthogonal, 288, KeyOwner::Cell(3));
    let structured = keys.derive(TransformKind::Structured, 288, KeyOwner::Row(RowHandle(5)));
    assert_eq!(
        [
            fingerprint(&image(&orthogonal)),
            fingerprint(&image(&structured)),
            keys.row_handle("doc-1", 0).0,
            keys.cell_handle(KeyOwner::Cell(3)).0,
        ],
        [
            8_323_247_522_518_280_580,
            13_138_214_645_370_892_368,
            13_202_962_767_984_855_475,
            14_351_794_810_158_201_448,
        ]
    );
    assert_eq!(
        u128::from_le_bytes(keys.row_mac(&row())),
        100_428_756_987_453_789_489_206_829_064_994_103_306
    );
    // Multiples of 2^-53, written out: which documents are canaries follows from them.
    let words = [keys.canary_word(RowHandle(5)), keys.canary_spread()];
    assert_eq!(words, [0.396_006_061_615_051_25, 0.785_251_899_028_937_2]);
    let id = vault_id(&MasterSecret::from_bytes(&[7; 32]));
    assert_eq!(u128::from_le_bytes(id.0), 241_121_913_112_316_278_815_299_985_210_323_811_516);
}

#[test]
fn every_part_of_the_label_changes_the_key() {
    let derive = |keys: &KeySchedule, kind, owner| image(&keys.derive(kind, 16, owner));
    let keys = schedule(EPOCH);
    let base = derive(&keys, TransformKind::Orthogonal, KeyOwner::Cell(1));
    let salted = schedule(SaltedEpoch { salt: [8; SALT_BYTES], ..EPOCH });
    let other = KeySchedule::new(&MasterSecret::from_bytes(&[8; 32]), &EPOCH);
    for (keys, kind, owner) in [
        (&schedule(epoch(2)), TransformKind::Orthogonal, KeyOwner::Cell(1)),
        (&salted, TransformKind::Orthogonal, KeyOwner::Cell(1)),
        (&keys, TransformKind::Orthogonal, KeyOwner::Cell(2)),
        (&keys, TransformKind::Orthogonal, KeyOwner::Row(RowHandle(1))),
        (&keys, TransformKind::Structured, KeyOwner::Cell(1)),
        (&other, TransformKind::Orthogonal, KeyOwner::Cell(1)),
    ] {
        assert_ne!(base, derive(keys, kind, owner));
    }
    assert_ne!(keys.row_handle("a", 0), schedule(epoch(2)).row_handle("a", 0));
    assert_ne!(keys.row_handle("a", 0), keys.row_handle("a", 1));
}

#[test]
fn an_epochs_secret_gives_the_schedule_of_that_epoch() {
    let master = MasterSecret::from_bytes(&[7; 32]);
    let given = KeySchedule::of_epoch(epoch_secret(&master, &EPOCH));
    let owner = KeyOwner::Cell(1);
    assert_eq!(
        image(&given.derive(TransformKind::Orthogonal, 16, owner)),
        image(&schedule(EPOCH).derive(TransformKind::Orthogonal, 16, owner))
    );
    assert_eq!(given.row_handle("a", 0), schedule(EPOCH).row_handle("a", 0));
    // Were the secret of epoch 1 taken for a master secret, epoch 2 would still be another.
    let mistaken = MasterSecret::from_bytes(epoch_secret(&master, &EPOCH).expose());
    let next = KeySchedule::new(&mistaken, &epoch(2));
    assert_ne!(next.row_handle("a", 0), schedule(epoch(2)).row_handle("a", 0));
}

#[test]
fn equal_rows_have_equal_macs_within_an_epoch_and_others_across_epochs() {
    let keys = schedule(EPOCH);
    let mac = keys.row_mac(&row());
    assert_eq!(mac, schedule(EPOCH).row_mac(&row()));
    assert_ne!(mac, schedule(epoch(2)).row_mac(&row()));
    for other in [
        Row { cell: declassify(CellHandle(4), Leak::CellMembership), ..row() },
        Row { handle: RowHandle(6), ..row() },
        Row { coordinates: vec![1, -2, i32::MIN], ..row() },
        Row { coordinates: vec![1, -2], ..row() },
    ] {
        assert_ne!(mac, keys.row_mac(&other));
    }
}

#[test]
fn a_row_mac_is_a_truncated_hmac() {
    use hkdf::hmac::{Hmac, KeyInit, Mac};
    let keys = schedule(EPOCH);
    let mut hmac = Hmac::<Sha256>::new_from_slice(&keys.mac_key[..]).unwrap();
    let row = row();
    hmac.update(&row.cell.0.to_le_bytes());
    hmac.update(&row.handle.0.to_le_bytes());
    row.coordinates.iter().for_each(|z| hmac.update(&z.to_le_bytes()));
    assert_eq!(keys.row_mac(&row), hmac.finalize().into_bytes()[..ROW_MAC_BYTES]);
}

#[test]
fn cache_stays_within_its_budget_and_keeps_what_is_used() {
    let keys = schedule(EPOCH);
    let derive = |cell| Arc::new(keys.derive(TransformKind::Orthogonal, 32, KeyOwner::Cell(cell)));
    let size = derive(0).bytes();
    let budget = 3 * size as u64;
    let cache = key_cache(budget);
    let label = |cell| (cell, TransformKind::Orthogonal, 32);
    for cell in 0..20 {
        cache.insert(label(cell), derive(cell));
        assert!(cache.weight() <= budget);
        assert!(cache.get(&label(cell)).is_some(), "the latest key is kept");
        assert!(cache.get(&label(0)).is_some(), "so is one in constant use");
    }
    assert!(cache.get(&label(10)).is_none());
}
