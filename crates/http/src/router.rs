//! A service that dispatches by path and method.

use std::sync::Arc;

use crate::route::{PARAM_COUNT_MAX, Params};
use crate::status::{PROBLEM_TYPE, problem};
use crate::{Io, Method, Readiness, Reply, Request, Route, Service, Ticket};

type Handler<T> = Box<dyn Fn(&mut T, &Request<'_>, Reply<'_>)>;
type Hook<T, A> = Option<Box<dyn Fn(&mut T, &mut Io, A)>>;

/// A [`Service`] made of closures, one for each method and pattern of a path.
///
/// A pattern is a path in which `{name}` matches one segment, and `{*name}` at its end matches the
/// rest. Exact paths take precedence over those with names, and those over `{*name}`. `HEAD` is
/// answered by the handler for `GET`; a method without a handler is 405.
///
/// Handlers get the state of their thread as `&mut`, so no locks are needed; shared data can be in
/// an `Arc` in it.
pub struct Router<T> {
    state: T,
    entries: Vec<Entry<T>>,
    patterns: Vec<Pattern>,
    fallback: Option<Handler<T>>,
    batch_end: Hook<T, ()>,
    ready: Hook<T, (u64, Readiness)>,
    timer: Hook<T, u64>,
    woken: Hook<T, u64>,
    writable: Hook<T, Ticket>,
}

struct Entry<T> {
    route: Route,
    handler: Handler<T>,
}

/// A pattern and the handlers of its methods.
struct Pattern {
    text: Box<str>,
    segments: Vec<Segment>,
    names: Option<Arc<[Box<str>]>>,
    /// The entry for each method.
    methods: Vec<(Method, u32)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Exact(Box<str>),
    Name,
    Rest,
}

/// The [`Route::id`]s of requests without a handler.
const NOT_FOUND: u32 = u32::MAX;
const NOT_ALLOWED: u32 = u32::MAX - 1;

impl<T: 'static> Router<T> {
    /// Creates a router without routes.
    pub fn new(state: T) -> Self {
        Self {
            state,
            entries: Vec::new(),
            patterns: Vec::new(),
            fallback: None,
            batch_end: None,
            ready: None,
            timer: None,
            woken: None,
            writable: None,
        }
    }

    /// The state that handlers get.
    pub fn state(&mut self) -> &mut T {
        &mut self.state
    }

    /// Answers `GET` and `HEAD`.
    ///
    /// # Panics
    ///
    /// As [`route`](Self::route).
    pub fn get(
        &mut self,
        pattern: &str,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        self.route(Method::Get, pattern, Route::buffered(), handler)
    }

    /// Answers `POST`.
    ///
    /// # Panics
    ///
    /// As [`route`](Self::route).
    pub fn post(
        &mut self,
        pattern: &str,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        self.route(Method::Post, pattern, Route::buffered(), handler)
    }

    /// Answers `PUT`.
    ///
    /// # Panics
    ///
    /// As [`route`](Self::route).
    pub fn put(
        &mut self,
        pattern: &str,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        self.route(Method::Put, pattern, Route::buffered(), handler)
    }

    /// Answers `DELETE`.
    ///
    /// # Panics
    ///
    /// As [`route`](Self::route).
    pub fn delete(
        &mut self,
        pattern: &str,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        self.route(Method::Delete, pattern, Route::buffered(), handler)
    }

    /// Answers a method of a pattern, with a [`Route`] that determines how the body is received.
    ///
    /// # Panics
    ///
    /// If the pattern is invalid, or already has a handler for the method: routes are written by
    /// programmers, not by users.
    pub fn route(
        &mut self,
        method: Method,
        pattern: &str,
        mut route: Route,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        let id = self.entries.len() as u32;
        let index = self.pattern(pattern);
        let pattern = &mut self.patterns[index];
        assert!(
            pattern.methods.iter().all(|&(other, _)| other != method),
            "`{}` has a handler for {} already",
            pattern.text,
            method.name(),
        );
        pattern.methods.push((method, id));
        route.id = id;
        route.params.names = pattern.names.clone();
        self.entries.push(Entry {
            route,
            handler: Box::new(handler),
        });
        self
    }

    /// Lets the [`SerialStage`](crate::SerialStage) answer a method of a pattern; it gets the tag.
    ///
    /// # Panics
    ///
    /// As [`route`](Self::route).
    pub fn serial(&mut self, method: Method, pattern: &str, tag: u32) -> &mut Self {
        // The stage is called instead of the handler.
        self.route(method, pattern, Route::serial(tag), |_, _, reply| {
            drop(reply)
        })
    }

    /// Answers requests that match no pattern, instead of 404.
    pub fn fallback(
        &mut self,
        handler: impl Fn(&mut T, &Request<'_>, Reply<'_>) + 'static,
    ) -> &mut Self {
        self.fallback = Some(Box::new(handler));
        self
    }

    /// See [`Service::batch_end`].
    pub fn on_batch_end(&mut self, hook: impl Fn(&mut T, &mut Io) + 'static) -> &mut Self {
        self.batch_end = Some(Box::new(move |state, io, ()| hook(state, io)));
        self
    }

    /// See [`Service::ready`].
    pub fn on_ready(
        &mut self,
        hook: impl Fn(&mut T, &mut Io, u64, Readiness) + 'static,
    ) -> &mut Self {
        self.ready = Some(Box::new(move |state, io, (token, readiness)| {
            hook(state, io, token, readiness);
        }));
        self
    }

    /// See [`Service::timer`].
    pub fn on_timer(&mut self, hook: impl Fn(&mut T, &mut Io, u64) + 'static) -> &mut Self {
        self.timer = Some(Box::new(hook));
        self
    }

    /// See [`Service::woken`].
    pub fn on_woken(&mut self, hook: impl Fn(&mut T, &mut Io, u64) + 'static) -> &mut Self {
        self.woken = Some(Box::new(hook));
        self
    }

    /// See [`Service::writable`].
    pub fn on_writable(&mut self, hook: impl Fn(&mut T, &mut Io, Ticket) + 'static) -> &mut Self {
        self.writable = Some(Box::new(hook));
        self
    }

    /// The index of a pattern, which is inserted in the order of precedence.
    fn pattern(&mut self, text: &str) -> usize {
        if let Some(index) = self.patterns.iter().position(|other| &*other.text == text) {
            return index;
        }
        let pattern = Pattern::parse(text);
        // Exact paths come first, since most requests are for one.
        let place = |pattern: &Pattern| pattern.names.is_some();
        let index = self.patterns.partition_point(|other| {
            (place(other), &other.segments) <= (place(&pattern), &pattern.segments)
        });
        self.patterns.insert(index, pattern);
        index
    }

    fn find(&self, head: &Request<'_>) -> Route {
        let mut params = Params::default();
        let mut id = NOT_FOUND;
        for pattern in &self.patterns {
            if !pattern.fits(head.path(), &mut params) {
                continue;
            }
            match pattern.entry(head.method()) {
                Some(index) => {
                    let mut route = self.entries[index as usize].route.clone();
                    if pattern.names.is_some() {
                        route.params.ranges = params.ranges;
                    }
                    return route;
                }
                None => id = NOT_ALLOWED,
            }
        }
        let mut route = Route::buffered();
        route.id = id;
        route
    }

    /// Answers 405 with the methods of a path.
    fn refuse(&self, request: &Request<'_>, reply: Reply<'_>) {
        let mut allow = String::new();
        let mut params = Params::default();
        for pattern in &self.patterns {
            if pattern.fits(request.path(), &mut params) {
                for &(method, _) in &pattern.methods {
                    let separator = if allow.is_empty() { "" } else { ", " };
                    allow.push_str(separator);
                    allow.push_str(method.name());
                    if method == Method::Get {
                        allow.push_str(", HEAD");
                    }
                }
            }
        }
        let reply = reply.status(405).header("Allow", allow);
        reply.send(PROBLEM_TYPE, problem(405).as_bytes());
    }
}

impl Pattern {
    fn parse(text: &str) -> Self {
        let path = text.strip_prefix('/');
        let path = path.unwrap_or_else(|| panic!("the pattern `{text}` does not begin with `/`"));
        let mut names = Vec::new();
        let mut segments = Vec::new();
        for part in path.split('/') {
            assert!(
                segments.last() != Some(&Segment::Rest),
                "nothing can follow the rest of a path in the pattern `{text}`"
            );
            let name = part
                .strip_prefix('{')
                .and_then(|part| part.strip_suffix('}'));
            segments.push(match name {
                None => Segment::Exact(part.into()),
                Some(name) => match name.strip_prefix('*') {
                    None => {
                        names.push(name.into());
                        Segment::Name
                    }
                    Some(rest) => {
                        names.push(rest.into());
                        Segment::Rest
                    }
                },
            });
        }
        assert!(
            names.len() <= PARAM_COUNT_MAX,
            "the pattern `{text}` has more than {PARAM_COUNT_MAX} names"
        );
        Self {
            text: text.into(),
            segments,
            names: (!names.is_empty()).then(|| names.into()),
            methods: Vec::new(),
        }
    }

    fn entry(&self, method: Method) -> Option<u32> {
        let of = |method| {
            let found = self.methods.iter().find(|&&(other, _)| other == method);
            found.map(|&(_, index)| index)
        };
        match method {
            Method::Head => of(Method::Head).or_else(|| of(Method::Get)),
            method => of(method),
        }
    }

    fn fits(&self, path: &str, params: &mut Params) -> bool {
        if self.names.is_none() {
            return *self.text == *path;
        }
        let mut at = 1;
        let mut count = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            let Some(rest) = path.get(at..) else {
                return false;
            };
            let size = memchr::memchr(b'/', rest.as_bytes()).unwrap_or(rest.len());
            let is_last = index + 1 == self.segments.len();
            match segment {
                Segment::Rest => {
                    params.ranges[count] = range(at, path.len());
                    return true;
                }
                Segment::Exact(text) if **text == rest[..size] => {}
                Segment::Exact(_) => return false,
                Segment::Name if size == 0 => return false,
                Segment::Name => {
                    params.ranges[count] = range(at, at + size);
                    count += 1;
                }
            }
            at += size + 1;
            if is_last {
                return at > path.len();
            }
        }
        false
    }
}

/// A target is shorter than 2^16 bytes, which the options guarantee.
fn range(from: usize, to: usize) -> (u16, u16) {
    (from as u16, to as u16)
}

impl<T: 'static> Service for Router<T> {
    fn route(&mut self, head: &Request<'_>) -> Route {
        self.find(head)
    }

    fn call(&mut self, request: &Request<'_>, reply: Reply<'_>) {
        match request.route().id {
            NOT_ALLOWED => self.refuse(request, reply),
            NOT_FOUND => match &self.fallback {
                Some(handler) => handler(&mut self.state, request, reply),
                None => reply.refuse(404),
            },
            id => (self.entries[id as usize].handler)(&mut self.state, request, reply),
        }
    }

    fn batch_end(&mut self, io: &mut Io) {
        if let Some(hook) = &self.batch_end {
            hook(&mut self.state, io, ());
        }
    }

    fn ready(&mut self, io: &mut Io, token: u64, readiness: Readiness) {
        if let Some(hook) = &self.ready {
            hook(&mut self.state, io, (token, readiness));
        }
    }

    fn timer(&mut self, io: &mut Io, token: u64) {
        if let Some(hook) = &self.timer {
            hook(&mut self.state, io, token);
        }
    }

    fn woken(&mut self, io: &mut Io, token: u64) {
        if let Some(hook) = &self.woken {
            hook(&mut self.state, io, token);
        }
    }

    fn writable(&mut self, io: &mut Io, ticket: Ticket) {
        if let Some(hook) = &self.writable {
            hook(&mut self.state, io, ticket);
        }
    }
}
