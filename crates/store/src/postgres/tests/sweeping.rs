//! Objects: which blobs become some, and when they go.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::*;
use crate::StoreError;
use crate::postgres::objects::INLINE_BYTES;

/// A directory of which one call fails, or that is full.
#[derive(Debug)]
pub(super) struct Failing {
    store: LocalFileSystem,
    /// Calls until one fails; negative for none.
    left: AtomicI64,
    struck: AtomicBool,
    /// Whether there is no room for what is put.
    full: AtomicBool,
}

impl Failing {
    pub(super) fn over(store: LocalFileSystem) -> Self {
        let no = || AtomicBool::new(false);
        Self { store, left: AtomicI64::new(-1), struck: no(), full: no() }
    }

    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    pub(super) fn fail_after(&self, calls: i64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    /// Fails none. Returns whether one has failed.
    pub(super) fn end(&self) -> bool {
        self.left.store(-1, Ordering::SeqCst);
        self.struck.load(Ordering::SeqCst)
    }

    fn strike(&self) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.struck.store(true, Ordering::SeqCst);
            return Err(Error::Generic { store: "failing", source: "a test".into() });
        }
        Ok(())
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.store)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Failing {
    async fn put_opts(&self, to: &Path, payload: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.strike()?;
        if self.full.load(Ordering::SeqCst) {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(Error::Generic { store: "failing", source: Box::new(full) });
        }
        self.store.put_opts(to, payload, how).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.strike()?;
        self.store.put_multipart_opts(to, how).await
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        self.strike()?;
        self.store.get_opts(from, how).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, how).await
    }
}

#[test]
fn long_blobs_and_those_named_by_content_are_objects_and_equal_ones_are_one() {
    let Some(cluster) = cluster() else { return };
    let (fresh, main) = (Fresh::with_objects(cluster), main_collection());
    fresh.put_blob(&main, &name("short"), &[1; INLINE_BYTES]).unwrap();
    assert_eq!(fresh.objects(), 0);
    let long = vec![1; INLINE_BYTES + 1];
    let other: CollectionName = "other".parse().unwrap();
    fresh.put_blob(&main, &name("long"), &long).unwrap();
    fresh.put_blob(&other, &name("longer"), &long).unwrap();
    assert_eq!(fresh.objects(), 1);
    for (at, text) in ["block.0", "hint.0", "page.0", "record-hint.0"].into_iter().enumerate() {
        fresh.put_blob(&main, &name(text), text.as_bytes()).unwrap();
        assert_eq!(fresh.objects(), at + 2);
    }
    let swept = || fresh.rows.sweep(Duration::ZERO).unwrap();
    assert_eq!(swept(), 0, "all are named");
    fresh.delete_blob(&main, &name("long")).unwrap();
    assert_eq!(swept(), 0, "it has another name");
    assert_eq!(fresh.blob(&other, &name("longer")).unwrap(), long);
    let twins =
        |byte: u8| ["longer", "twin"].map(|text| (name(text), vec![byte; 2 * INLINE_BYTES]));
    fresh.put_blobs(&other, &twins(1)).unwrap();
    assert_eq!(swept(), 1, "replaced");
    fresh.put_blobs(&other, &twins(2)).unwrap();
    assert_eq!(swept(), 1, "both replaced at once");
    fresh.drop_collection(&other).unwrap();
    assert_eq!(fresh.rows.sweep(Duration::from_secs(60)).unwrap(), 0, "the time of grace");
    assert_eq!(swept(), 1);
    assert_eq!(fresh.objects(), 4);
}

#[test]
fn an_object_that_is_gone_or_changed_is_damage_and_is_told() {
    let Some(cluster) = cluster() else { return };
    let (fresh, main) = (Fresh::with_objects(cluster), main_collection());
    let long = vec![1; 2 * INLINE_BYTES];
    fresh.put_blob(&main, &name("a"), &long).unwrap();
    let file = fresh.only_object();
    std::fs::write(&file, vec![2; 2 * INLINE_BYTES]).unwrap();
    assert!(matches!(fresh.blob(&main, &name("a")), Err(StoreError::Damaged { .. })));
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(fresh.blob(&main, &name("a")), Err(StoreError::Damaged { .. })));
    // The same bytes under another name bring it back for both.
    fresh.put_blob(&main, &name("b"), &long).unwrap();
    assert_eq!(fresh.blob(&main, &name("a")).unwrap(), long);
}

#[test]
fn the_same_bytes_under_the_same_name_bring_back_an_object_that_is_gone_or_cut_off() {
    let Some(cluster) = cluster() else { return };
    let (fresh, main) = (Fresh::with_objects(cluster), main_collection());
    let long = vec![1; 2 * INLINE_BYTES];
    let put = || fresh.put_blobs(&main, &[(name("a"), long.clone())]).unwrap();
    put();
    let file = fresh.only_object();
    for gone in [true, false] {
        let harmed = if gone { std::fs::remove_file(&file) } else { std::fs::write(&file, b"cut") };
        harmed.unwrap();
        assert!(matches!(fresh.blob(&main, &name("a")), Err(StoreError::Damaged { .. })));
        put();
        assert_eq!(fresh.blob(&main, &name("a")).unwrap(), long);
        assert_eq!(fresh.rows.sweep(Duration::ZERO).unwrap(), 0, "it is named");
    }
}

#[test]
fn an_address_with_a_query_or_a_fragment_is_refused_and_not_repeated() {
    for address in ["s3://bucket/x?sig=secret", "file:///tmp#secret", "az://secret/x?secret"] {
        let line = crate::Objects::open(address).unwrap_err().to_string();
        assert!(line.contains("a query or a fragment") && !line.contains("secret"), "{line}");
    }
}

#[test]
fn a_missing_directory_is_told_in_one_line() {
    let line = crate::Objects::open("file:///nowhere/at/all").unwrap_err().to_string();
    assert_eq!(line, "cannot use the object store: there is no directory /nowhere/at/all");
    let line = crate::Objects::open("ftp://host/x").unwrap_err().to_string();
    assert!(line.contains("none of s3, gs, az and file"), "{line}");
}

#[test]
fn a_sweep_beside_puts_of_the_same_bytes_loses_none_of_them() {
    let Some(cluster) = cluster() else { return };
    let fresh = Arc::new(Fresh::with_objects(cluster));
    let (main, ended, begun) = (main_collection(), AtomicBool::new(false), AtomicI64::new(0));
    fresh.put_blob(&main, &name("first"), b"so that the collection is there").unwrap();
    let long = |byte: u8| vec![byte; INLINE_BYTES + 1];
    std::thread::scope(|scope| {
        let (fresh, main, ended, begun) = (&fresh, &main, &ended, &begun);
        let sweeper = scope.spawn(move || {
            // One for every put that begins, somewhere in its midst: without pauses and without a time
            // of grace, a sweep would always win.
            let mut seen = 0;
            while !ended.load(Ordering::SeqCst) {
                match begun.load(Ordering::SeqCst) {
                    now if now == seen => std::thread::yield_now(),
                    now => {
                        seen = now;
                        fresh.rows.sweep(Duration::ZERO).unwrap();
                    }
                }
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    let mine = name(&format!("blob{writer}"));
                    let mut done = 0;
                    for round in 0..40_u8 {
                        // Both writers put, replace and delete the same few contents.
                        let bytes = long(round % 3);
                        begun.fetch_add(1, Ordering::SeqCst);
                        match fresh.put_blob(main, &mine, &bytes) {
                            Ok(()) => {
                                assert_eq!(fresh.blob(main, &mine).unwrap(), bytes);
                                done += 1;
                            }
                            // Sweeps came between again and again.
                            Err(StoreError::Unavailable { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        if round % 5 == 4 {
                            fresh.delete_blob(main, &mine).unwrap();
                        }
                    }
                    done
                })
            })
            .collect();
        let done: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        ended.store(true, Ordering::SeqCst);
        sweeper.join().unwrap();
        assert!(done.into_iter().all(|done| done.unwrap() > 0));
    });
    assert!(fresh.rows.metrics().swept_objects > 0);
}
