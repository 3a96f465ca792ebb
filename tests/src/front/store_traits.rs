//! What a lesser store refuses, decided from a request's headers and from what was uploaded before.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::log::Seen;
use super::operation::Operation;
use super::rule::{Refusal, StoreTrait};

/// Why a store with this trait refuses the request, if it does. `parts` are the sizes of the upload's parts so far.
pub(crate) fn refusal(store_trait: StoreTrait, seen: &Seen, parts: &BTreeMap<u32, u64>) -> Option<Refusal> {
    let write = matches!(seen.operation, Operation::PutObject | Operation::UploadPart);
    match store_trait {
        // No refusal at all: the condition is dropped on the way.
        StoreTrait::IgnoresIfNoneMatch => None,
        StoreTrait::RefusesChecksums => {
            asks_for_checksums(seen).then(|| Refusal::new(400, "XAmzContentSHA256Mismatch"))
        }
        StoreTrait::LacksChecksums => asks_for_checksums(seen).then(|| Refusal::new(501, "NotImplemented")),
        StoreTrait::RequiresContentLength => {
            (write && seen.content_length().is_none()).then(|| Refusal::new(411, "MissingContentLength"))
        }
        StoreTrait::RequiresContentMd5 => {
            let lacks = seen.operation == Operation::DeleteObjects && seen.header("content-md5").is_none();
            lacks.then(|| Refusal::new(400, "MissingContentMD5"))
        }
        StoreTrait::PartsAtMost(most) => {
            seen.part_number.is_some_and(|number| number > most).then(|| Refusal::new(400, "InvalidArgument"))
        }
        StoreTrait::RequiresEqualParts => {
            let complete = seen.operation == Operation::CompleteMultipartUpload;
            (complete && !are_equal(parts)).then(|| Refusal::new(400, "InvalidPart"))
        }
        StoreTrait::VirtualHostsOnly => {
            (seen.bucket.is_some() && !seen.virtual_host).then(|| Refusal::new(400, "VirtualHostStyleRequired"))
        }
        StoreTrait::PathStyleOnly => seen.virtual_host.then(|| Refusal::new(404, "NoSuchBucket")),
    }
}

fn asks_for_checksums(seen: &Seen) -> bool {
    !checksum_headers(&seen.headers).is_empty()
}

/// The headers by which a request asks for checksums that older stores do not know.
pub(crate) fn checksum_headers(headers: &HeaderMap) -> Vec<String> {
    let chunked = |value: &http::HeaderValue| value.to_str().is_ok_and(|value| value.contains("aws-chunked"));
    let newer = headers.iter().filter(|(name, value)| match name.as_str() {
        "x-amz-trailer" | "x-amz-sdk-checksum-algorithm" => true,
        "content-encoding" => chunked(value),
        name => name.starts_with("x-amz-checksum-"),
    });
    newer.map(|(name, _)| name.as_str().to_owned()).collect()
}

fn are_equal(parts: &BTreeMap<u32, u64>) -> bool {
    let sizes: Vec<u64> = parts.values().copied().collect();
    match sizes.split_last() {
        None => true,
        Some((last, others)) => {
            others.iter().all(|bytes| Some(bytes) == others.first()) && others.first().is_none_or(|first| last <= first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_when_only_the_last_is_smaller() {
        let cases: [(&[u64], bool); 6] = [
            (&[], true),
            (&[3], true),
            (&[5, 5, 3], true),
            (&[5, 5, 6], false),
            (&[5, 4, 4], false),
            (&[5, 5, 5], true),
        ];
        for (sizes, expected) in cases {
            let parts = (1..).zip(sizes.iter().copied()).collect();
            assert_eq!(are_equal(&parts), expected, "{sizes:?}");
        }
    }
}
