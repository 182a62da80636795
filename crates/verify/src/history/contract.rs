//! What a read was promised, and where its answer came from.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};

/// What an answer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Contract {
    /// Any version that was written.
    Any,
    /// The newest version that was acknowledged more than this before the read began, or a newer one.
    Within(Duration),
    /// At least what the log has up to the position that the read names.
    After,
    /// What the database itself could have answered during the read.
    Now,
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.pad("any"),
            Self::Within(duration) => f.pad(&format!("within({duration:?})")),
            Self::After => f.pad("after"),
            Self::Now => f.pad("now"),
        }
    }
}

/// The index of a contract in the list of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractId(u8);

impl ContractId {
    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// The index, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The limit of contracts of a history, which follows from the byte that a read has for its own.
const CONTRACT_COUNT_MAX: usize = 1 << 8;

/// The contracts of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contracts(Vec<Contract>);

impl Contracts {
    /// Lists contracts; one that is named twice is listed once.
    ///
    /// # Errors
    ///
    /// If there are more than 256.
    pub fn new(contracts: impl IntoIterator<Item = Contract>) -> Result<Self> {
        let mut list: Vec<Contract> = contracts.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        if list.len() > CONTRACT_COUNT_MAX {
            return Err(Error::too_many_contracts(CONTRACT_COUNT_MAX));
        }
        Ok(Self(list))
    }

    /// The identifier of a contract.
    ///
    /// # Errors
    ///
    /// If the contract is not in the list.
    pub fn id(&self, contract: Contract) -> Result<ContractId> {
        let index = self.0.binary_search(&contract);
        let id = index.ok().and_then(|index| u8::try_from(index).ok());
        id.map(ContractId)
            .ok_or_else(|| Error::unlisted_contract(contract))
    }

    /// The identifiers of all contracts.
    pub fn ids(&self) -> impl Iterator<Item = ContractId> {
        (0..=u8::MAX).take(self.0.len()).map(ContractId)
    }

    /// The contract of an identifier; `None` for one of another list.
    pub fn contract(&self, id: ContractId) -> Option<Contract> {
        self.0.get(id.index()).copied()
    }
}

/// Where a reader gets its answers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The database itself, without a cache: the base case, which checks the harness.
    Database,
    /// The cache of one session.
    L0,
    /// The cache that sessions share.
    L1,
    /// The cache of one call of a model.
    Call,
    /// Encoded bodies of the HTTP server.
    Body,
    /// A batch of keys in one call.
    Batch,
    /// A native plan over tables in memory.
    Native,
    /// A table that follows the database.
    Followed,
    /// A whole run of `enrich`.
    Enrich,
    /// A request over HTTP.
    Http,
}

impl Layer {
    /// All layers.
    pub const ALL: [Self; 10] = [
        Self::Database,
        Self::L0,
        Self::L1,
        Self::Call,
        Self::Body,
        Self::Batch,
        Self::Native,
        Self::Followed,
        Self::Enrich,
        Self::Http,
    ];

    /// Whether reads through it belong to a session, and never go back. Requests over HTTP do not, as
    /// threads with caches of their own answer them, nor do callers of the shared cache, with a cache
    /// of a call before it or not: of two queries that overlap, the one that was sent later may have been
    /// executed earlier.
    pub fn has_sessions(self) -> bool {
        !matches!(self, Self::L1 | Self::Call | Self::Body | Self::Http)
    }

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::L0 => "l0",
            Self::L1 => "l1",
            Self::Call => "call",
            Self::Body => "body",
            Self::Batch => "batch",
            Self::Native => "native",
            Self::Followed => "followed",
            Self::Enrich => "enrich",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
