//! From a request to a file.

use std::sync::Arc;

use super::conditional::{Conditions, Outcome};
use super::folder::OpenFile;
use super::{Entry, StaticFiles};
use crate::io::FILE_COPY_SIZE_MAX;
use crate::negotiate::{self, Encoding};
use crate::{Method, Reply, Request};

impl StaticFiles {
    /// Answers a request by the file under `path`, which is as the client sent it, without the
    /// slash that it begins with: `request.param("path")` of a route `/static/{*path}`.
    ///
    /// What is not there is 404. A client that has the file already gets 304, one that wants a
    /// part of it gets that, and one that accepts it in no form that is there gets 406.
    ///
    /// ```no_run
    /// use lookaside_http::{Listen, Options, Router, Server, StaticFiles, StaticOptions};
    ///
    /// let listen: Listen = "127.0.0.1:8300".parse()?;
    /// let server = Server::start(Options::default(), vec![listen], |_io| {
    ///     // Each thread opens its own. The folder is there, or there is no server.
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
        // A file that was cut since it was looked at is answered as it is now.
        let Err(reply) = self.try_serve(request, path, reply) else {
            return;
        };
        self.forget(path);
        if let Err(reply) = self.try_serve(request, path, reply) {
            // It gets shorter all the time: nobody can say what it holds.
            reply.refuse(503);
        }
    }

    /// Gives the reply back when the file is shorter than it was when it was looked at.
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
            Outcome::Whole => (reply, 0..size),
            Outcome::Part(bytes) => {
                let range = format!("bytes {}-{}/{size}", bytes.start, bytes.end - 1);
                (reply.status(206).header("Content-Range", range), bytes)
            }
            Outcome::NotModified => (reply.status(304), 0..0),
            Outcome::Unsatisfiable => {
                let range = format!("bytes */{size}");
                reply.status(416).header("Content-Range", range).empty();
                return Ok(());
            }
        };
        // A long one is sent as the client takes it, when its length was told already. To ask costs
        // little beside sending it.
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
    /// The form of the file that the client likes best.
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

    /// Says what the choice depended on, if there was one.
    fn vary<'a>(&self, reply: Reply<'a>) -> Reply<'a> {
        match self.compressed.is_empty() {
            true => reply,
            false => reply.header("Vary", "Accept-Encoding"),
        }
    }
}
