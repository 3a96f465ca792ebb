//! Which S3 operation a request is, read from nothing but its method, its address and its query.

use http::Method;

use crate::s3::unescape;

/// The S3 operations that the front can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `POST <key>?uploads`
    CreateMultipartUpload,
    /// `PUT <key>?partNumber&uploadId`
    UploadPart,
    /// `POST <key>?uploadId`
    CompleteMultipartUpload,
    /// `DELETE <key>?uploadId`
    AbortMultipartUpload,
    /// `GET <bucket>?uploads`
    ListMultipartUploads,
    /// `GET <key>?uploadId`
    ListParts,
    /// `PUT <key>`
    PutObject,
    /// `HEAD <key>`
    HeadObject,
    /// `GET <key>`
    GetObject,
    /// `DELETE <key>`
    DeleteObject,
    /// `POST <bucket>?delete`
    DeleteObjects,
    /// `GET <bucket>?list-type=2`
    ListObjectsV2,
    /// `HEAD <bucket>`
    HeadBucket,
    /// Everything else, such as making a bucket or asking for its policy.
    Other,
}

/// A request's target, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) operation: Operation,
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) part_number: Option<u32>,
    pub(crate) upload_id: Option<String>,
    /// Whether a listing goes on from an earlier page.
    pub(crate) continued: bool,
    /// Whether the bucket was named by the host and not by the path.
    pub(crate) virtual_host: bool,
}

impl Target {
    /// Takes a request apart. `domain` is the one under which hosts name buckets, if any.
    pub(crate) fn of(method: &Method, path: &str, query: &str, host: &str, domain: Option<&str>) -> Self {
        let host = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        let host_bucket = domain.and_then(|domain| host.strip_suffix(domain)?.strip_suffix('.'));
        let path = path.strip_prefix('/').unwrap_or(path);
        let (bucket, key) = match host_bucket {
            Some(bucket) => (bucket, path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        let some = |text: &str| (!text.is_empty()).then(|| unescape(text));
        let (bucket, key) = (some(bucket), some(key));
        let query = Query(query);
        Self {
            operation: operation(method, bucket.is_some(), key.is_some(), query),
            bucket,
            key,
            part_number: query.value("partNumber").and_then(|number| number.parse().ok()),
            upload_id: query.value("uploadId"),
            continued: query.has("continuation-token") || query.has("key-marker"),
            virtual_host: host_bucket.is_some(),
        }
    }
}

fn operation(method: &Method, bucket: bool, key: bool, query: Query<'_>) -> Operation {
    // Sub-resources such as ?policy or ?tagging share their method and path with the operations that we know.
    let sub_resources =
        ["policy", "versioning", "object-lock", "tagging", "acl", "location", "retention", "legal-hold"];
    if sub_resources.iter().any(|name| query.has(name)) {
        return Operation::Other;
    }
    let upload = query.has("uploadId");
    match (method.as_str(), bucket, key) {
        ("POST", true, true) if query.has("uploads") => Operation::CreateMultipartUpload,
        ("POST", true, true) if upload => Operation::CompleteMultipartUpload,
        ("PUT", true, true) if upload => Operation::UploadPart,
        ("DELETE", true, true) if upload => Operation::AbortMultipartUpload,
        ("GET", true, true) if upload => Operation::ListParts,
        ("PUT", true, true) => Operation::PutObject,
        ("HEAD", true, true) => Operation::HeadObject,
        ("GET", true, true) => Operation::GetObject,
        ("DELETE", true, true) => Operation::DeleteObject,
        ("POST", true, false) if query.has("delete") => Operation::DeleteObjects,
        ("GET", true, false) if query.has("uploads") => Operation::ListMultipartUploads,
        ("GET", true, false) if query.value("list-type").as_deref() == Some("2") => Operation::ListObjectsV2,
        ("HEAD", true, false) => Operation::HeadBucket,
        _ => Operation::Other,
    }
}

#[derive(Clone, Copy)]
struct Query<'a>(&'a str);

impl Query<'_> {
    fn has(self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(self, name: &str) -> Option<String> {
        let mut pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| unescape(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_told_from_method_path_and_query() {
        use Operation::*;
        let cases = [
            ("POST", "/b/a/k", "uploads=", CreateMultipartUpload),
            ("POST", "/b/a/k", "uploads", CreateMultipartUpload),
            ("PUT", "/b/k", "x-id=UploadPart&partNumber=7&uploadId=u", UploadPart),
            ("POST", "/b/k", "uploadId=u", CompleteMultipartUpload),
            ("DELETE", "/b/k", "x-id=AbortMultipartUpload&uploadId=u", AbortMultipartUpload),
            ("GET", "/b/k", "uploadId=u", ListParts),
            ("GET", "/b", "uploads&prefix=p", ListMultipartUploads),
            ("GET", "/b/", "uploads=", ListMultipartUploads),
            ("PUT", "/b/k", "", PutObject),
            ("PUT", "/b/k", "x-id=PutObject", PutObject),
            ("HEAD", "/b/k", "", HeadObject),
            ("GET", "/b/k", "x-id=GetObject", GetObject),
            ("DELETE", "/b/k", "", DeleteObject),
            ("POST", "/b/", "delete=", DeleteObjects),
            ("GET", "/b/", "list-type=2&prefix=x", ListObjectsV2),
            ("HEAD", "/b", "", HeadBucket),
            ("PUT", "/b", "", Other),
            ("PUT", "/b/k", "tagging", Other),
            ("GET", "/b", "policy", Other),
            ("GET", "/", "", Other),
        ];
        for (method, path, query, expected) in cases {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let target = Target::of(&method, path, query, "127.0.0.1:1", None);
            assert_eq!(target.operation, expected, "{method} {path}?{query}");
        }
    }

    #[test]
    fn keys_are_unescaped_and_hosts_may_name_the_bucket() {
        let target = Target::of(&Method::PUT, "/b/a%2Bb/c%20d+e", "partNumber=3&uploadId=u%2F1", "h", None);
        assert_eq!((target.bucket.as_deref(), target.key.as_deref()), (Some("b"), Some("a+b/c d+e")));
        assert_eq!((target.part_number, target.upload_id.as_deref()), (Some(3), Some("u/1")));
        assert!(!target.virtual_host);

        let target = Target::of(&Method::GET, "/a/k", "", "my.bucket.s3.test:80", Some("s3.test"));
        assert_eq!((target.bucket.as_deref(), target.key.as_deref()), (Some("my.bucket"), Some("a/k")));
        assert!(target.virtual_host);
    }
}
