//! The front itself: takes a request in, asks its rules, forwards, and answers.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use md5::{Digest as _, Md5};
use tokio::sync::watch;

use super::fault;
use super::log::{Fate, Seen};
use super::operation::{Operation, Target};
use super::rule::{Action, Lie, Moment, Rule, StoreTrait};
use super::{store_traits, upstream, xml};
use crate::s3::S3Keys;
use crate::s3::listener::{BoxError, Cut, Listening, Reply, ReplyBody};

/// How a front is to be started.
#[derive(Debug)]
pub struct FrontOptions {
    /// The store's address; it is spoken to over plain HTTP.
    pub store: SocketAddr,
    /// Keys that the store accepts, for the few rules that forward something else than what the client signed.
    pub keys: Option<S3Keys>,
    /// The domain under which hosts name buckets.
    pub domain: Option<String>,
    /// TLS towards the client.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The script from the start.
    pub rules: Vec<Rule>,
}

impl FrontOptions {
    /// A front without rules before this store.
    pub fn before(store: SocketAddr) -> Self {
        Self { store, keys: None, domain: None, tls: None, rules: Vec::new() }
    }

    /// With keys to sign with.
    pub fn keys(mut self, keys: S3Keys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// With one more rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// A fault-injecting front on a loopback port, alive as long as this value.
#[derive(Debug)]
pub struct Front {
    listening: Listening,
    scheme: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: SocketAddr,
    keys: Option<S3Keys>,
    domain: Option<String>,
    state: Mutex<State>,
    /// Changes with every change of the log.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Each rule with the number of requests that matched it so far.
    rules: Vec<(Rule, u64)>,
    log: Vec<Seen>,
    /// The sizes of the parts of each upload.
    parts: HashMap<String, BTreeMap<u32, u64>>,
    /// The token that RepeatPageToken repeats.
    page_token: Option<String>,
}

impl Front {
    /// Starts a front on a free loopback port.
    ///
    /// # Errors
    /// No port could be had.
    ///
    /// # Panics
    /// As [`Front::rule`].
    pub async fn start(options: FrontOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            store: options.store,
            keys: options.keys,
            domain: options.domain,
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let handling = Arc::clone(&shared);
        let listening =
            Listening::start(options.tls, move |request| Box::pin(handle(Arc::clone(&handling), request))).await?;
        let front = Self { listening, scheme, shared };
        for rule in options.rules {
            front.rule(rule);
        }
        Ok(front)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The endpoint by address, as a user would configure it.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// Adds a rule behind the others.
    ///
    /// # Panics
    /// The rule must sign anew what it forwards, and the front was given no keys.
    pub fn rule(&self, rule: Rule) {
        let lacks = rule.action().needs_keys() && self.shared.keys.is_none();
        assert!(!lacks, "{:?} forwards what no client signed: give the front keys", rule.action());
        self.shared.lock().rules.push((rule, 0));
    }

    /// Drops all rules: from now on the front only forwards.
    pub fn clear_rules(&self) {
        self.shared.lock().rules.clear();
    }

    /// Everything seen so far, in the order of arrival.
    pub fn log(&self) -> Vec<Seen> {
        self.shared.lock().log.clone()
    }

    /// Forgets what was seen so far; requests still on their way go on unlogged.
    pub fn clear_log(&self) {
        self.shared.lock().log.clear();
    }

    /// What was seen of one operation.
    pub fn seen(&self, operation: Operation) -> Vec<Seen> {
        self.log().into_iter().filter(|seen| seen.operation == operation).collect()
    }

    /// How many requests for one operation came in.
    pub fn count(&self, operation: Operation) -> usize {
        self.seen(operation).len()
    }

    /// Waits until the log holds a request that `wanted` takes, and gives it.
    ///
    /// # Errors
    /// None came within `patience`.
    pub async fn wait_for(
        &self,
        patience: Duration,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Seen, tokio::time::error::Elapsed> {
        let mut changed = self.shared.changed.subscribe();
        tokio::time::timeout(patience, async {
            loop {
                changed.mark_unchanged();
                if let Some(found) = self.shared.lock().log.iter().find(|seen| wanted(seen)) {
                    return found.clone();
                }
                // The sender lives in self, so that the wait cannot end for want of one.
                let _ = changed.changed().await;
            }
        })
        .await
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs for the rules that [`Action::needs_keys`]; [`Front::rule`] saw to it that there are keys.
    fn sign_again(&self, request: &mut Request<Bytes>) -> Result<(), BoxError> {
        match &self.keys {
            Some(keys) => upstream::sign_again(request, keys),
            None => Err("the front has no keys to sign with".into()),
        }
    }
}

/// A request's line in the log, kept up to date while the request is handled.
struct Entry {
    shared: Arc<Shared>,
    seen: Seen,
    store_acted: bool,
}

impl Entry {
    fn begin(shared: &Arc<Shared>, parts: &http::request::Parts, target: &Target) -> Self {
        let mut state = shared.lock();
        let seen = Seen::new(state.log.len(), parts, target);
        state.log.push(seen.clone());
        drop(state);
        shared.changed.send_replace(());
        Self { shared: Arc::clone(shared), seen, store_acted: false }
    }

    fn note(&mut self, fate: Fate) {
        self.seen.fate = fate;
        if let Some(line) = self.shared.lock().log.get_mut(self.seen.index) {
            line.fate = fate;
            line.body_bytes = self.seen.body_bytes;
        }
        self.shared.changed.send_replace(());
    }
}

impl Drop for Entry {
    /// hyper drops the handling of a request when its client goes away.
    fn drop(&mut self) {
        if self.seen.fate == Fate::Pending {
            self.note(if self.store_acted { Fate::CutAfterStore } else { Fate::ClientGone });
        }
    }
}

/// What the rules make of one request.
#[derive(Default)]
struct Plan {
    /// What hinders it on its way, in the order of the rules.
    steps: Vec<(Moment, Action)>,
    drain_bytes_per_second: Option<u64>,
    drops_condition: bool,
    /// How it ends, if not by the store's own answer.
    end: Option<Action>,
}

impl Plan {
    fn of(state: &mut State, seen: &Seen) -> Self {
        let none = BTreeMap::new();
        let parts = seen.upload_id.as_ref().and_then(|id| state.parts.get(id)).unwrap_or(&none);
        let mut plan = Self::default();
        for (rule, matched) in &mut state.rules {
            if !rule.matches(seen) {
                continue;
            }
            *matched += 1;
            if !rule.is_due(*matched - 1) {
                continue;
            }
            match rule.action().clone() {
                Action::SlowDrain(rate) => plan.drain_bytes_per_second = Some(rate.max(1)),
                action @ Action::Delay(_) => plan.steps.push((Moment::BodyRead, action)),
                action @ (Action::Call(moment, _) | Action::Hold(moment, _)) => plan.steps.push((moment, action)),
                Action::Store(StoreTrait::IgnoresIfNoneMatch) => {
                    plan.drops_condition = seen.headers.contains_key("if-none-match");
                }
                Action::Store(store_trait) => {
                    plan.end = store_traits::refusal(store_trait, seen, parts).map(Action::Refuse);
                }
                action => plan.end = Some(action),
            }
            if plan.end.is_some() {
                break;
            }
        }
        plan
    }

    async fn pass(&self, moment: Moment, seen: &Seen) {
        for (_, step) in self.steps.iter().filter(|(at, _)| *at == moment) {
            match step {
                Action::Delay(time) => tokio::time::sleep(*time).await,
                Action::Call(_, callback) => callback(seen),
                Action::Hold(_, gate) => gate.pass().await,
                _ => {}
            }
        }
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Reply {
    let (parts, body) = request.into_parts();
    let host = parts.headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    let target = Target::of(&parts.method, parts.uri.path(), query, host, shared.domain.as_deref());
    let mut entry = Entry::begin(&shared, &parts, &target);
    let plan = Plan::of(&mut shared.lock(), &entry.seen);

    plan.pass(Moment::Arrived, &entry.seen).await;
    let read_at_most = match &plan.end {
        Some(Action::ResetAtOnce) => return cut(entry, Fate::CutBeforeStore, Cut::Reset),
        Some(Action::ResetInBody(bytes)) => Some(*bytes),
        _ => None,
    };
    let body = match drain(body, plan.drain_bytes_per_second, read_at_most, &mut entry).await {
        Drained::Whole(body) => body,
        Drained::Enough => return cut(entry, Fate::CutBeforeStore, Cut::Reset),
        Drained::ClientGone => return cut(entry, Fate::ClientGone, Cut::Close),
    };
    entry.note(Fate::Pending);
    remember_part(&shared, &entry.seen);
    plan.pass(Moment::BodyRead, &entry.seen).await;

    let request = Request::from_parts(parts, body);
    if let Some(action) = &plan.end
        && let Some(reply) = answer_alone(action, &mut entry, &request).await
    {
        return reply;
    }
    match forward(plan, &mut entry, request).await {
        Ok(reply) => reply,
        Err(error) => {
            tracing::warn!("the front could not reach the store: {error}");
            cut(entry, Fate::StoreFailed, Cut::Close)
        }
    }
}

fn cut(mut entry: Entry, fate: Fate, cut: Cut) -> Reply {
    entry.note(fate);
    Err(cut)
}

enum Drained {
    Whole(Bytes),
    Enough,
    ClientGone,
}

/// Reads the client's body, as slowly and as far as it is to be read.
async fn drain(mut body: Incoming, rate: Option<u64>, at_most: Option<u64>, entry: &mut Entry) -> Drained {
    let mut whole = BytesMut::new();
    loop {
        if at_most.is_some_and(|bytes| entry.seen.body_bytes >= bytes) {
            return Drained::Enough;
        }
        let Some(frame) = body.frame().await else { break };
        let Ok(frame) = frame else { return Drained::ClientGone };
        let Ok(data) = frame.into_data() else { continue };
        entry.seen.body_bytes += data.len() as u64;
        if let Some(rate) = rate {
            tokio::time::sleep(Duration::from_secs_f64(data.len() as f64 / rate as f64)).await;
        }
        whole.extend_from_slice(&data);
    }
    // A body that was too short for the wanted cut is cut at its end.
    if at_most.is_some() { Drained::Enough } else { Drained::Whole(whole.freeze()) }
}

fn remember_part(shared: &Shared, seen: &Seen) {
    if let (Operation::UploadPart, Some(id), Some(number)) = (seen.operation, &seen.upload_id, seen.part_number) {
        shared.lock().parts.entry(id.clone()).or_default().insert(number, seen.payload_bytes());
    }
}

/// Ends a request without the store, if `action` is one that does.
async fn answer_alone(action: &Action, entry: &mut Entry, request: &Request<Bytes>) -> Option<Reply> {
    let response = match action {
        Action::Refuse(refusal) => fault::refuse(refusal, request.method() == Method::HEAD),
        Action::Answer(status, body) => fault::answer(*status, body.clone()),
        Action::ErrorIn200(code) => fault::error_in_200(code),
        Action::Lie(Lie::KeepsNothing) => lie(entry, request.body()),
        Action::CloseUnforwarded => {
            entry.note(Fate::CutBeforeStore);
            return Some(Err(Cut::Close));
        }
        Action::Hang => std::future::pending().await,
        _ => return None,
    };
    entry.note(Fate::Answered(response.status().as_u16()));
    Some(Ok(response))
}

/// The answer of a store that kept everything, whatever it kept.
fn lie(entry: &Entry, completion: &Bytes) -> Response<ReplyBody> {
    let completion = String::from_utf8_lossy(completion);
    let etags = xml::contents(&completion, "ETag");
    let mut digests = Md5::new();
    for etag in &etags {
        let etag = etag.replace("&quot;", "");
        let digits = etag.trim_matches('"').as_bytes();
        let bytes = digits.chunks(2).filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        digests.update(bytes.collect::<Vec<u8>>());
    }
    let md5: String = digests.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let bucket = entry.seen.bucket.as_deref().unwrap_or_default();
    let key = entry.seen.key.as_deref().unwrap_or_default();
    let body = xml::completed(bucket, key, &format!("{md5}-{}", etags.len()));
    fault::answer(http::StatusCode::OK, body.into())
}

/// Lets the store act, and answers with what the plan makes of its answer.
async fn forward(plan: Plan, entry: &mut Entry, mut request: Request<Bytes>) -> Result<Reply, BoxError> {
    let shared = Arc::clone(&entry.shared);
    let completion = request.body().clone();
    if plan.drops_condition {
        request.headers_mut().remove("if-none-match");
    }
    let drops = match plan.end {
        Some(Action::Lie(Lie::DropsFirstPart)) => Some((1, 0)),
        Some(Action::Lie(Lie::DropsLastPart)) => Some((0, 1)),
        _ => None,
    };
    if let Some((first, last)) = drops {
        let kept = xml::keep_parts(&String::from_utf8_lossy(&completion), |at, of| at >= first && at + last < of);
        upstream::replace_body(&mut request, kept.into());
    }
    if plan.drops_condition || drops.is_some() {
        shared.sign_again(&mut request)?;
    }
    let host = request.headers().get(header::HOST).cloned();
    if let Some(Action::WhitespaceFirst { every, times }) = plan.end {
        entry.note(Fate::Forwarded(200));
        let late = async move { Ok(upstream::send(shared.store, request).await?.collect().await?.to_bytes()) };
        return Ok(Ok(fault::whitespace_first(every, times, late)));
    }

    let response = upstream::send(shared.store, request).await?;
    entry.store_acted = true;
    if let Some(Action::Lie(Lie::Truncates(bytes))) = plan.end
        && response.status().is_success()
    {
        truncate(&shared, &entry.seen.path, host, bytes).await?;
    }
    plan.pass(Moment::StoreAnswered, &entry.seen).await;
    let response = match &plan.end {
        Some(Action::ResetAfterForward) => {
            entry.note(Fate::CutAfterStore);
            return Ok(Err(Cut::Reset));
        }
        Some(Action::SwallowReply) => {
            entry.note(Fate::CutAfterStore);
            return Ok(Err(Cut::Close));
        }
        Some(Action::Lie(_)) if drops.is_some() && response.status().is_success() => lie(entry, &completion),
        None | Some(Action::Lie(_)) => response.map(|body| body.map_err(BoxError::from).boxed_unsync()),
        Some(action) => {
            let (parts, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            let token = repeated_token(&shared, action, &body);
            fault::spoil(action, Response::from_parts(parts, body), token.as_deref())
        }
    };
    entry.note(Fate::Forwarded(response.status().as_u16()));
    Ok(Ok(response))
}

/// Puts a shorter object in the place of the one at `path`, behind the client's back.
async fn truncate(shared: &Shared, path: &str, host: Option<HeaderValue>, bytes: u64) -> Result<(), BoxError> {
    let send = async |method: Method, body: Bytes| {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse()?;
        request.headers_mut().extend(host.clone().map(|host| (header::HOST, host)));
        upstream::replace_body(&mut request, body);
        shared.sign_again(&mut request)?;
        let response = upstream::send(shared.store, request).await?;
        match response.status().is_success() {
            true => Ok(response.into_body().collect().await?.to_bytes()),
            false => Err(BoxError::from(format!("the store answered {}", response.status()))),
        }
    };
    let whole = send(Method::GET, Bytes::new()).await?;
    let kept = usize::try_from(bytes).unwrap_or(usize::MAX).min(whole.len());
    send(Method::PUT, whole.slice(..kept)).await?;
    Ok(())
}

/// The token that the first listing page gave, for a store that gives it for ever.
fn repeated_token(shared: &Shared, action: &Action, page: &Bytes) -> Option<String> {
    if !matches!(action, Action::RepeatPageToken) {
        return None;
    }
    let page = String::from_utf8_lossy(page);
    let own = xml::contents(&page, "NextContinuationToken").first().map(|token| (*token).to_owned());
    let mut state = shared.lock();
    state.page_token = state.page_token.take().or(own);
    state.page_token.clone()
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("steps", &self.steps).field("end", &self.end).finish_non_exhaustive()
    }
}
