//! What a cache does right or wrong: the protocols, and the mutants of the right one.

/// A protocol that keeps a cache fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A time to live, whatever the contract.
    TtlOnly,
    /// A change invalidates its entry when the log delivers it, as consumers of Debezium and go-pq-cdc
    /// do; late fills are valid.
    InvalidateOnArrival,
    /// A trigger notifies of each row, which arrives when the change is visible; late fills are valid, and
    /// TRUNCATE has no row.
    ListenNotify,
    /// As above, and a fill is valid only if nothing was invalidated since its question was sent.
    ArrivalWithLeases,
    /// A change invalidates when the database shows it, with leases.
    GateWithLeases,
}

/// An error in [`Protocol::GateWithLeases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// A change is applied when the log delivers it.
    ApplyOnArrival,
    /// A fill is stamped when it is answered.
    NoLease,
    /// Every 1000th event of the log is lost.
    EventsDropped,
    /// TRUNCATE invalidates nothing.
    TruncateIgnored,
    /// A row whose key changed invalidates only the new key.
    OldKeyIgnored,
    /// Entries stay valid when the connection to the log is lost and made again.
    EpochKept,
    /// DDL that changes rows without row events is not noticed.
    FingerprintOff,
    /// A read under `after` takes the answer of a flight that was sent before it.
    AfterJoinsFlights,
    /// The age of a body counts from the end of its flight.
    BodyAgeFromCompletion,
    /// A new connection to the log is used before all transactions have ended that were in progress
    /// when it was made: their commits may be before its first position, and not visible yet.
    LiveOnConnect,
    /// A session takes answers of flights that were sent before its last answer had arrived: of two
    /// overlapping flights, the one that was sent later may have been answered earlier.
    SessionTakesAnyFlight,
}

impl Mutant {
    pub(crate) const ALL: [Self; 11] = [
        Self::ApplyOnArrival,
        Self::NoLease,
        Self::EventsDropped,
        Self::TruncateIgnored,
        Self::OldKeyIgnored,
        Self::EpochKept,
        Self::FingerprintOff,
        Self::AfterJoinsFlights,
        Self::BodyAgeFromCompletion,
        Self::LiveOnConnect,
        Self::SessionTakesAnyFlight,
    ];
}

/// The decisions that differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches {
    /// Whether there is a feed of the log.
    pub(crate) has_feed: bool,
    /// Whether contracts are known; without, all are answered by the time to live.
    pub(crate) has_contracts: bool,
    /// Whether a change waits until it is visible.
    pub(crate) has_gate: bool,
    /// Whether a fill is stamped when its question is sent, not when it is answered.
    pub(crate) has_lease: bool,
    /// Every event with a number divisible by this is dropped.
    pub(crate) dropped_every: Option<u64>,
    pub(crate) applies_truncate: bool,
    pub(crate) applies_old_key: bool,
    pub(crate) ends_epoch_on_loss: bool,
    pub(crate) compares_fingerprint: bool,
    pub(crate) after_joins: bool,
    pub(crate) body_age_from_completion: bool,
    pub(crate) waits_on_connect: bool,
    pub(crate) orders_sessions: bool,
}

impl Protocol {
    pub(crate) const ALL: [Self; 5] = [
        Self::TtlOnly,
        Self::ListenNotify,
        Self::InvalidateOnArrival,
        Self::ArrivalWithLeases,
        Self::GateWithLeases,
    ];

    pub(crate) fn switches(self) -> Switches {
        let right = Switches {
            has_feed: true,
            has_contracts: true,
            has_gate: true,
            has_lease: true,
            dropped_every: None,
            applies_truncate: true,
            applies_old_key: true,
            ends_epoch_on_loss: true,
            compares_fingerprint: true,
            after_joins: false,
            body_age_from_completion: false,
            waits_on_connect: true,
            orders_sessions: true,
        };
        match self {
            Self::GateWithLeases => right,
            Self::ArrivalWithLeases => Switches {
                has_gate: false,
                ..right
            },
            Self::InvalidateOnArrival => Switches {
                has_gate: false,
                has_lease: false,
                ..right
            },
            Self::ListenNotify => Switches {
                has_lease: false,
                applies_truncate: false,
                ..right
            },
            Self::TtlOnly => Switches {
                has_feed: false,
                has_contracts: false,
                ..right
            },
        }
    }
}

impl Mutant {
    pub(crate) fn switches(self) -> Switches {
        let mut switches = Protocol::GateWithLeases.switches();
        match self {
            Self::ApplyOnArrival => switches.has_gate = false,
            Self::NoLease => switches.has_lease = false,
            Self::EventsDropped => switches.dropped_every = Some(1000),
            Self::TruncateIgnored => switches.applies_truncate = false,
            Self::OldKeyIgnored => switches.applies_old_key = false,
            Self::EpochKept => switches.ends_epoch_on_loss = false,
            Self::FingerprintOff => switches.compares_fingerprint = false,
            Self::AfterJoinsFlights => switches.after_joins = true,
            Self::BodyAgeFromCompletion => switches.body_age_from_completion = true,
            Self::LiveOnConnect => switches.waits_on_connect = false,
            Self::SessionTakesAnyFlight => switches.orders_sessions = false,
        }
        switches
    }
}
