//! Portals that stay open: results whose rows are fetched in parts.
//!
//! The server keeps one until it is closed or its transaction ends. So does the driver, for the
//! columns, which are described only once.

use std::sync::Arc;

use lookaside_wire::postgres::Request as Wire;

use super::in_flight::InFlight;
use super::session::ServerSession;
use super::statement::{Columns, Statement};
use super::{PostgresDriver, QueryRange, SMALL};
use crate::driver::QueryRef;
use crate::request::{Fetch, Portal};
use crate::{Answer, Error};

/// What the server calls a portal.
pub(super) fn portal_name(portal: Portal) -> String {
    format!("p{}", portal.0)
}

impl PostgresDriver {
    /// Queues what fetches the next rows.
    pub(super) fn fetch(&mut self, range: QueryRange, fetch: Fetch) {
        self.end_flight();
        let Some(statement) = self.session.portals.get(&fetch.portal).cloned() else {
            return self.session.requests.refuse(range, &Error::no_portal());
        };
        let execute = self.connection.queue(Wire::Execute {
            portal: &portal_name(fetch.portal),
            row_count_max: fetch.row_count,
        });
        let sequence = self.session.next_sequence();
        self.session.in_flight.push_back(InFlight::Query {
            query: range.first(),
            statement,
            execute: execute.expect(SMALL),
            sequence,
            chunk: self.output.next_chunk(),
            portal: Some(fetch.portal),
        });
        self.session.in_flight_count += 1;
        self.sync();
    }

    /// Queues what closes a portal, whether or not there is one.
    pub(super) fn close_portal(&mut self, range: QueryRange, portal: Portal) {
        self.end_flight();
        self.session.portals.remove(&portal);
        let close = self
            .connection
            .queue(Wire::ClosePortal(&portal_name(portal)));
        close.expect(SMALL);
        self.session
            .in_flight
            .push_back(InFlight::Close(Some(range.first())));
        self.sync();
    }
}

impl ServerSession {
    /// There may be more rows than those that came.
    pub(super) fn keep_portal(
        &mut self,
        portal: Portal,
        statement: &Arc<Statement>,
        columns: Option<&Arc<Columns>>,
    ) {
        let statement = match columns {
            Some(columns) => Arc::new(statement.of_portal(Arc::clone(columns))),
            None => Arc::clone(statement),
        };
        self.portals.insert(portal, statement);
    }

    /// A Close is done, one way or the other.
    pub(super) fn closed(&mut self, query: Option<QueryRef>) {
        let Some(query) = query else { return };
        let answer = Answer::of_rows(Columns::default().rows().build());
        self.requests.answer(query, Ok(answer));
    }
}
