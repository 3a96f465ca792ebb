//! The little XML that the front reads and writes: S3's errors, completions and listing tokens.
//!
//! It cuts out what it needs as text. The input is what an S3 server or an S3 client of ours wrote, flat and without
//! comments or CDATA; this is no parser for anybody else's XML.

use super::rule::Refusal;

/// An `<Error>` document.
pub(crate) fn error(refusal: &Refusal) -> String {
    let region = refusal.region.as_ref().map(|region| format!("<Region>{region}</Region>")).unwrap_or_default();
    let message = match &refusal.region {
        Some(region) => format!("The authorization header is malformed; the region is wrong; expecting '{region}'"),
        None => "The front of the lab was told to refuse this.".to_owned(),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{message}</Message>{region}\
         <RequestId>lab-front</RequestId><HostId>lab</HostId></Error>",
        refusal.code
    )
}

/// A completion's result, as plausible as a true one.
pub(crate) fn completed(bucket: &str, key: &str, etag: &str) -> String {
    let (bucket, key) = (escape(bucket), escape(key));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Location>/{bucket}/{key}</Location><Bucket>{bucket}</Bucket><Key>{key}</Key><ETag>&quot;{etag}&quot;</ETag>\
         </CompleteMultipartUploadResult>"
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The contents of every `<name>` in document order.
pub(crate) fn contents<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once(&open) {
        let Some((inside, behind)) = after.split_once(&close) else { break };
        found.push(inside);
        rest = behind;
    }
    found
}

/// The completion request with only those parts that `keep` takes (by their place from 0, of how many).
pub(crate) fn keep_parts(xml: &str, keep: impl Fn(usize, usize) -> bool) -> String {
    let parts = contents(xml, "Part");
    let kept = parts.iter().enumerate().filter(|(place, _)| keep(*place, parts.len()));
    let parts: String = kept.map(|(_, part)| format!("<Part>{part}</Part>")).collect();
    format!(
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{parts}</CompleteMultipartUpload>"
    )
}

/// A listing page that claims that the page after it is `token`'s.
pub(crate) fn with_page_token(xml: &str, token: &str) -> String {
    let xml = xml.replace("<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated>");
    match contents(&xml, "NextContinuationToken").first() {
        Some(found) => xml.replace(
            &format!("<NextContinuationToken>{found}</NextContinuationToken>"),
            &format!("<NextContinuationToken>{token}</NextContinuationToken>"),
        ),
        None => xml.replace(
            "</ListBucketResult>",
            &format!("<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_kept_by_their_place() {
        let xml = "<C><Part><ETag>a</ETag></Part><Part><ETag>b</ETag></Part><Part><ETag>c</ETag></Part></C>";
        let kept = keep_parts(xml, |place, of| place + 1 < of);
        assert_eq!(contents(&kept, "ETag"), ["a", "b"]);
    }

    #[test]
    fn the_last_page_too_gets_the_repeated_token() {
        let page = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
        let page = with_page_token(page, "t");
        assert_eq!(contents(&page, "IsTruncated"), ["true"]);
        assert_eq!(contents(&page, "NextContinuationToken"), ["t"]);
        assert_eq!(contents(&with_page_token(&page, "u"), "NextContinuationToken"), ["u"]);
    }
}
