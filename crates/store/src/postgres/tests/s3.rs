//! What an operator is told of a bucket of S3, by the real client and a server that answers as S3 does.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;

use crate::Objects;

const EMPTY: &str = "<ListBucketResult><Name>papers</Name><KeyCount>0</KeyCount>\
                     <IsTruncated>false</IsTruncated></ListBucketResult>";

/// A bucket whose server answers everything with this status and body.
fn bucket(status: &'static str, body: String) -> Objects {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/xml\r\n");
            let length = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.get_mut().write_all((head + &length + &body).as_bytes()).unwrap();
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name("papers")
        .with_access_key_id("somebody")
        .with_secret_access_key("a-secret")
        .build();
    Objects::over(Arc::new(store.unwrap()), "prefix".into(), "s3://papers/prefix")
}

fn error(code: &str, message: &str) -> String {
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    format!("{head}<Error><Code>{code}</Code><Message>{message}</Message></Error>")
}

#[tokio::test]
async fn a_missing_bucket_and_wrong_credentials_are_told_in_one_line() {
    bucket("200 OK", EMPTY.to_owned()).look().await.unwrap();
    let missing = "there is no such bucket";
    let refused = "it refuses the credentials of the environment";
    for (status, code, words) in [
        ("404 Not Found", "NoSuchBucket", missing),
        ("403 Forbidden", "AccessDenied", refused),
        ("403 Forbidden", "InvalidAccessKeyId", refused),
        ("403 Forbidden", "SignatureDoesNotMatch", refused),
    ] {
        let looked = bucket(status, error(code, "words of S3")).look().await;
        let line = looked.unwrap_err().to_string();
        assert_eq!(line, format!("cannot use the object store: s3://papers/prefix: {words}"));
    }
    // Neither of the two: what S3 says is repeated.
    let late = error("RequestTimeTooSkewed", "the clock is wrong");
    let line = bucket("403 Forbidden", late).look().await.unwrap_err().to_string();
    assert!(line.contains("the clock is wrong") && !line.contains('\n'), "{line}");
    assert!(!line.contains("a-secret") && !line.contains(refused), "{line}");
}
