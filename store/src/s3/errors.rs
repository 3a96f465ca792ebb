//! From the SDK's errors to ours: code, message and causes, never the request.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use super::options::S3Options;
use super::watch::NoProgress;
use crate::error::Cause;
use crate::{StoreError, StoreErrorKind as Kind};

/// Reduces an SDK error to what an operator can use.
pub(super) fn failed<E>(doing: String, error: SdkError<E>, options: &S3Options) -> StoreError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    let body = error.raw_response().and_then(|raw| raw.body().bytes()).unwrap_or_default();
    let region = between(body, "<Region>", "</Region>");
    match &error {
        SdkError::ServiceError(service) => {
            let code = service.err().code().unwrap_or_default().to_owned();
            let message = service.err().message().unwrap_or_default();
            refused(doing, status.unwrap_or(0), &code, message, region.as_deref())
        }
        SdkError::TimeoutError(_) => StoreError::new(Kind::Stalled, doing).because(Cause::texts_of(&error)),
        // Not the store's network: nothing was sent to it.
        SdkError::DispatchFailure(_) if is_about_credentials(&error) => not_sent(doing, &error),
        SdkError::DispatchFailure(failure) => {
            let kind = if stalled(&error) || failure.is_timeout() { Kind::Stalled } else { Kind::Network };
            let failure = StoreError::new(kind, doing).because(Cause::texts_of(&error));
            unreachable(failure, &error, options)
        }
        SdkError::ResponseError(_) if stalled(&error) => {
            StoreError::new(Kind::Stalled, doing).because(Cause::texts_of(&error))
        }
        SdkError::ResponseError(_) => {
            StoreError::new(Kind::Unavailable, doing).because(Cause::text("the store's reply cannot be understood"))
        }
        _ => not_sent(doing, &error),
    }
}

/// A reply whose body broke off.
pub(super) fn body_failed(doing: String, error: &(dyn std::error::Error + 'static)) -> StoreError {
    let kind = if stalled(error) { Kind::Stalled } else { Kind::Network };
    StoreError::new(kind, doing).because(Cause::texts_of(error))
}

fn refused(doing: String, status: u16, code: &str, message: &str, region: Option<&str>) -> StoreError {
    let kind = kind_of(status, code);
    let (code, message) = (&printable(code), &printable(message));
    let cause = match (code.as_str(), message.as_str()) {
        ("", "") => format!("the store answered {status}"),
        ("", message) => format!("the store answered {status}: {message}"),
        (code, "") => format!("the store answered {status} {code}"),
        (code, message) => format!("the store answered {status} {code}: {message}"),
    };
    let failure = StoreError::new(kind, doing).because(Cause::text(cause));
    match hint_of(kind, status, code, region) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn kind_of(status: u16, code: &str) -> Kind {
    match (status, code) {
        (_, "NoSuchBucket") => Kind::NoSuchPlace,
        (_, "NoSuchKey" | "NotFound" | "NoSuchUpload") | (404, _) => Kind::NotFound,
        (_, "PreconditionFailed") | (412, _) => Kind::AlreadyExists,
        (_, "AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken")
        | (401 | 403, _) => Kind::Denied,
        (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") | (301 | 307, _) => Kind::Config,
        (_, "QuotaExceeded") | (507, _) => Kind::Full,
        (501, _) | (_, "NotImplemented" | "XAmzContentSHA256Mismatch") => Kind::Unsupported,
        (_, "BadDigest" | "InvalidDigest" | "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall") => Kind::Damaged,
        (429 | 500..=599, _) | (_, "SlowDown" | "InternalError" | "ServiceUnavailable") => Kind::Unavailable,
        _ => Kind::Other,
    }
}

fn hint_of(kind: Kind, status: u16, code: &str, region: Option<&str>) -> Option<String> {
    if let Some(region) = region {
        return Some(format!("the store expects the region {region}: set --s3-region {region} (or AWS_REGION)"));
    }
    let hint = match (kind, status, code) {
        (_, _, "InvalidAccessKeyId") => "the store does not know the access key",
        (_, _, "SignatureDoesNotMatch") => "the secret key is wrong, or a proxy changes requests on their way",
        (_, _, "ExpiredToken" | "InvalidToken") => "the session token has expired",
        (Kind::Denied, ..) => "docs/permissions lists what the credentials must be allowed to do",
        (Kind::NoSuchPlace, ..) => "make the bucket first; this program never does",
        (Kind::Config, ..) => {
            "the bucket is in another region or at another endpoint: set --s3-region or --s3-endpoint"
        }
        // Older stores refuse the checksums of newer SDKs, each with words of its own.
        (Kind::Unsupported, ..) | (_, 400, "" | "InvalidRequest") => {
            "if the store does not know newer checksums, set --s3-checksums when-required (or AWS_REQUEST_CHECKSUM_CALCULATION=when_required)"
        }
        (Kind::Unavailable, ..) => {
            "the store is overloaded or has a fault of its own; it was asked again several times"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn unreachable(failure: StoreError, error: &(dyn std::error::Error + 'static), options: &S3Options) -> StoreError {
    let text = chain(error);
    if text.contains("dns error") || text.contains("failed to lookup") {
        return match options.path_style() {
            true => failure.with_hint("the endpoint's name is not known to DNS here"),
            false => failure.with_hint(format!(
                "there may be no DNS name for `{}` at this store: set --s3-addressing path",
                options.bucket
            )),
        };
    }
    if text.contains("UnknownIssuer") {
        return failure.with_hint("give the store's private CA with --s3-ca-file");
    }
    failure
}

/// The request was never made: credentials that cannot be had, above all.
fn not_sent(doing: String, error: &(dyn std::error::Error + 'static)) -> StoreError {
    let text = chain(error).to_lowercase();
    let failure = if text.contains("credential") {
        StoreError::new(Kind::Denied, doing).with_hint(
            "looked for S3 credentials in the environment, the profile, a web identity token, the container and the instance: \
             set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE",
        )
    } else if text.contains("region") {
        StoreError::new(Kind::Config, doing).with_hint("set --s3-region or AWS_REGION")
    } else {
        StoreError::new(Kind::Other, doing)
    };
    failure.because(Cause::texts_of(error))
}

fn is_about_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<CredentialsError>())
}

fn stalled(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<NoProgress>())
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(|error| format!("{error}\n")).collect()
}

/// What a store says goes to a terminal and into logs: one line of a bounded length, without control characters.
fn printable(text: &str) -> String {
    const CHARS_MAX: usize = 500;
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect()
}

fn between(body: &[u8], from: &str, to: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let start = text.find(from)? + from.len();
    let end = start + text[start..].find(to)?;
    // It will be printed: only what a region's name can be.
    let name = &text[start..end];
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (plain && !name.is_empty() && name.len() < 64).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn said(status: u16, code: &str, message: &str, region: Option<&str>) -> (Kind, String, String) {
        let error = refused("could not do it".to_owned(), status, code, message, region);
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        (error.kind(), cause, error.hint().unwrap_or_default().to_owned())
    }

    #[test]
    fn every_refusal_has_its_kind_and_a_hint_that_helps() {
        let table = [
            (404, "NoSuchBucket", Kind::NoSuchPlace, "make the bucket first"),
            (403, "InvalidAccessKeyId", Kind::Denied, "does not know the access key"),
            (403, "SignatureDoesNotMatch", Kind::Denied, "secret key is wrong"),
            (400, "ExpiredToken", Kind::Denied, "session token has expired"),
            (403, "", Kind::Denied, "docs/permissions"),
            (301, "PermanentRedirect", Kind::Config, "--s3-region"),
            (400, "XAmzContentSHA256Mismatch", Kind::Unsupported, "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"),
            (501, "NotImplemented", Kind::Unsupported, "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"),
            (400, "", Kind::Other, "AWS_REQUEST_CHECKSUM_CALCULATION=when_required"),
            (503, "SlowDown", Kind::Unavailable, "overloaded"),
            (429, "", Kind::Unavailable, "overloaded"),
            (400, "BadDigest", Kind::Damaged, ""),
            (412, "PreconditionFailed", Kind::AlreadyExists, ""),
        ];
        for (status, code, kind, hint) in table {
            let (found, cause, hinted) = said(status, code, "", None);
            assert_eq!(found, kind, "{status} {code}");
            assert!(hinted.contains(hint) && hinted.is_empty() == hint.is_empty(), "{status} {code}: {hinted}");
            assert_eq!(cause, format!("the store answered {status} {code}").trim_end());
        }
    }

    #[test]
    fn b41_the_hint_has_the_region_that_the_store_named() {
        let body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-nl-1</Region></Error>";
        let region = between(body, "<Region>", "</Region>");
        let (kind, _, hint) = said(400, "AuthorizationHeaderMalformed", "", region.as_deref());
        assert_eq!(kind, Kind::Config);
        assert!(hint.contains("--s3-region eu-nl-1"), "{hint}");
        for odd in [&b"<Region></Region>"[..], b"<Region>\x1b[31m</Region>", b"<Region>x", b"\xff", b""] {
            assert_eq!(between(odd, "<Region>", "</Region>"), None);
        }
    }

    #[test]
    fn what_a_store_says_is_one_line_of_bounded_length_without_control_characters() {
        let (_, cause, _) = said(400, "Odd\x1b[2J", &format!("first\nsecond{}", "x".repeat(100_000)), None);
        assert!(cause.starts_with("the store answered 400 Odd [2J: first second"), "{cause}");
        assert!(cause.len() < 1_000 && !cause.contains(char::is_control));
    }
}
