//! The metadata of results, unless the model sets it.

/// Where keys, topics, times and headers of results come from, unless the model sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultMeta {
    /// The key; without it, or a field of a record that does not exist, that of the message.
    pub key: Option<MetaValue>,
    /// The topic instead of that of the sink.
    pub topic: Option<MetaValue>,
    /// The time, as a model sets it.
    pub timestamp: Option<MetaValue>,
    /// The headers by name.
    pub headers: Vec<(String, MetaValue)>,
}

/// A value of metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaValue {
    /// That of this field of the result.
    Field(String),
    /// This text.
    Constant(String),
}
