//! Under which names a server without tokens answers.
//!
//! Whoever reaches such a server may do everything, so it listens on a loopback address only. A
//! browser on the same machine can still be led there: a page's own name is made to resolve to the
//! loopback address (DNS rebinding), and the page then talks to the server as to its own origin. The
//! browser sends the page's name in the Host header, which is how such requests are told apart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;

use super::refused::Refused;

/// Refuses a request that was not addressed to this machine by `localhost`, a loopback address of
/// the usual form, or the address that the server is bound to.
pub(super) fn check(request: &Request, bound: IpAddr) -> Result<(), Refused> {
    // HTTP/2 has the name in the URI, HTTP/1 in a header; a request may have both.
    let in_uri = request.uri().authority().map(|authority| Ok(authority.clone()));
    let headers = request.headers().get_all(HOST).into_iter();
    let in_headers = headers.map(|value| Authority::try_from(value.as_bytes()));
    let mut hosts = in_uri.into_iter().chain(in_headers).peekable();
    let is_named = hosts.peek().is_some();
    if is_named && hosts.all(|host| host.is_ok_and(|host| is_own(host.host(), bound))) {
        return Ok(());
    }
    Err(Refused::forbidden(
        "this server has no tokens and answers under the names localhost, 127.0.0.1 and [::1] and \
         the address it is bound to, not under the Host of this request: use one of them, or make a \
         token",
    ))
}

fn is_own(host: &str, bound: IpAddr) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let own = [bound.to_canonical(), Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    host.eq_ignore_ascii_case("localhost")
        || literal.parse().is_ok_and(|address: IpAddr| own.contains(&address.to_canonical()))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn is_served(uri: &str, hosts: &[&str]) -> bool {
        let request = Request::builder().uri(uri);
        let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
        check(&request.body(Body::empty()).unwrap(), "127.0.0.2".parse().unwrap()).is_ok()
    }

    #[test]
    fn this_machine_is_known_by_its_loopback_names_with_any_port() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7443", "[::1]:1", "127.0.0.2", "[::1]"]
        {
            assert!(is_served("/healthz", &[host]), "{host}");
        }
        assert!(is_served("https://localhost:7443/healthz", &[]));
        assert!(is_served("https://localhost:7443/healthz", &["127.0.0.1"]));
    }

    #[test]
    fn every_other_name_and_a_missing_one_is_refused() {
        for host in [
            "attacker.example",
            "attacker.example:7443",
            "localhost.attacker.example",
            "127.0.0.1.attacker.example",
            "localhost@attacker.example",
            "127.0.0.3",
            "192.168.0.1",
            "localhost:7443 x",
            "",
        ] {
            assert!(!is_served("/healthz", &[host]), "{host:?}");
            assert!(!is_served("/healthz", &["localhost", host]), "{host:?} as a second header");
        }
        assert!(!is_served("/healthz", &[]), "no name at all");
        assert!(!is_served("https://attacker.example/healthz", &["localhost"]));
    }
}
