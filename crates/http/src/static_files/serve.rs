//! From a request to a file.

use std::sync::Arc;

use super::conditional::{ConditionalOutcome, Conditions};
use super::folder::OpenFile;
use super::{Entry, StaticFiles};
use crate::io::FILE_COPY_SIZE_MAX;
use crate::negotiate::{self, Encoding};
use crate::{Method, Reply, Request};

impl StaticFiles {
    /// Answers a request with the file at `path`, which is as the client sent it, without the
    /// leading slash: `request.param("path")` of a route `/static/{*path}`.
    ///
    /// A missing file is 404. A client that has the file already gets 304, a range request gets its
    /// range, and a client that accepts none of the available codings gets 406.
    ///
    /// ```no_run
    /// use lookaside_http::{Listen, Options, Router, Server, StaticFiles, StaticOptions};
    ///
    /// let listen: Listen = "127.0.0.1:8300".parse()?;
    /// let server = Server::start(Options::default(), vec![listen], |_io| {
    ///     // Each thread opens its own. The server does not start without the folder.
    ///     let files = StaticFiles::open("site", StaticOptions::default()).expect("the site");
    ///     let mut router = Router::new(files);
    ///     router.get("/{*path}", |files, request, reply| {
    ///         files.serve(request, request.param("path").unwrap_or_default(), reply);
    ///     });
    ///     router
    /// })?;
    /// # Ok::<(), lookaside_http::Error>(())
    /// ```
    pub fn serve(&mut self, request: &Request<'_>, path: &str, reply: Reply<'_>) {
        if !matches!(request.method(), Method::Get | Method::Head) {
            return reply.status(405).header("Allow", "GET, HEAD").empty();
        }
        // A file that was truncated since it was checked is served in its current state.
        let Err(reply) = self.try_serve(request, path, reply) else {
            return;
        };
        self.forget(path);
        if let Err(reply) = self.try_serve(request, path, reply) {
            // It keeps shrinking, so no consistent answer is possible.
            reply.refuse(503);
        }
    }

    /// Returns the reply if the file is shorter than when it was checked.
    fn try_serve<'a>(
        &mut self,
        request: &Request<'_>,
        path: &str,
        reply: Reply<'a>,
    ) -> Result<(), Reply<'a>> {
        let Some((entry, options)) = self.find(path, reply.now()) else {
            reply.refuse(404);
            return Ok(());
        };
        let Some((encoding, file)) = entry.choose(request) else {
            entry.vary(reply.status(406)).empty();
            return Ok(());
        };
        // RFC 9110, 14.2: parts are for GET alone.
        let is_get = request.method() == Method::Get;
        let conditions = Conditions {
            if_none_match: request.header("If-None-Match"),
            if_modified_since: request.header("If-Modified-Since"),
            range: request.header("Range").filter(|_| is_get),
            if_range: request.header("If-Range"),
        };
        let size = file.size();
        let (reply, bytes) = match conditions.outcome(&file.tag, file.modified, size) {
            ConditionalOutcome::Whole => (reply, 0..size),
            ConditionalOutcome::Part(bytes) => {
                let range = format!("bytes {}-{}/{size}", bytes.start, bytes.end - 1);
                (reply.status(206).header("Content-Range", range), bytes)
            }
            ConditionalOutcome::NotModified => (reply.status(304), 0..0),
            ConditionalOutcome::Unsatisfiable => {
                let range = format!("bytes */{size}");
                reply.status(416).header("Content-Range", range).empty();
                return Ok(());
            }
        };
        // A long file is sent as the client receives it, after its length has been sent. Checking
        // the length again costs little compared to sending it.
        if bytes.end - bytes.start > FILE_COPY_SIZE_MAX && !file.is_as_long() {
            return Err(reply.without_head());
        }
        let mut reply = entry.vary(reply).header("ETag", &file.tag);
        if let Some(cache_control) = &options.cache_control {
            reply = reply.header("Cache-Control", cache_control);
        }
        if bytes.is_empty() && size > 0 {
            reply.empty();
            return Ok(());
        }
        reply = reply
            .header("Content-Type", entry.content_type)
            .header("Last-Modified", file.last_modified)
            .header("Accept-Ranges", "bytes");
        if let Some(name) = encoding.name() {
            reply = reply.header("Content-Encoding", name);
        }
        reply.try_file(Arc::clone(&file.file), bytes)
    }
}

impl Entry {
    /// The form of the file that the client prefers.
    fn choose(&self, request: &Request<'_>) -> Option<(Encoding, &OpenFile)> {
        let mut offers = [Encoding::Identity; Encoding::ALL.len()];
        let mut count = 0;
        for (offer, (encoding, _)) in offers.iter_mut().zip(self.offers()) {
            *offer = encoding;
            count += 1;
        }
        let accepted = request.header_values("Accept-Encoding");
        let chosen = negotiate::encoding(accepted, &offers[..count])?;
        self.offers().find(|(encoding, _)| *encoding == chosen)
    }

    /// Adds `Vary` if there was a choice.
    fn vary<'a>(&self, reply: Reply<'a>) -> Reply<'a> {
        match self.compressed.is_empty() {
            true => reply,
            false => reply.header("Vary", "Accept-Encoding"),
        }
    }
}
