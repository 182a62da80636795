//! The types that every PostgreSQL has, by their numbers (`pg_type.dat` of the server's source).

/// How a value of a type, or an element of an array, is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    /// Unsigned 32 bits: oid, xid, cid.
    Oid,
    Float4,
    Float8,
    Numeric,
    /// The text is the same in both formats.
    Text,
    /// The type `"char"`, one byte.
    Char,
    Bytea,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Inet,
    Cidr,
    Macaddr,
    Macaddr8,
    Json,
    Jsonb,
    /// Known by name, and text to us.
    Other,
}

/// A type and its array type.
pub(super) struct TypeEntry {
    pub(super) oid: u32,
    /// 0 where there is none, or where the elements are not parted by commas (`box`).
    pub(super) array_oid: u32,
    pub(super) name: &'static str,
    pub(super) scalar: Scalar,
}

impl TypeEntry {
    /// The entry of which that number is the type or the array type.
    pub(super) fn of(oid: u32) -> Option<&'static Self> {
        // Made once for a column, not for a cell, so that a search of 70 entries does.
        ENTRIES
            .iter()
            .find(|entry| oid != 0 && (entry.oid == oid || entry.array_oid == oid))
    }
}

const fn entry(oid: u32, array_oid: u32, name: &'static str, scalar: Scalar) -> TypeEntry {
    TypeEntry {
        oid,
        array_oid,
        name,
        scalar,
    }
}

pub(super) const ENTRIES: &[TypeEntry] = &[
    entry(25, 1009, "text", Scalar::Text),
    entry(23, 1007, "int4", Scalar::Int4),
    entry(20, 1016, "int8", Scalar::Int8),
    entry(16, 1000, "bool", Scalar::Bool),
    entry(21, 1005, "int2", Scalar::Int2),
    entry(26, 1028, "oid", Scalar::Oid),
    entry(28, 1011, "xid", Scalar::Oid),
    entry(29, 1012, "cid", Scalar::Oid),
    entry(700, 1021, "float4", Scalar::Float4),
    entry(701, 1022, "float8", Scalar::Float8),
    entry(1700, 1231, "numeric", Scalar::Numeric),
    entry(1043, 1015, "varchar", Scalar::Text),
    entry(1042, 1014, "bpchar", Scalar::Text),
    entry(19, 1003, "name", Scalar::Text),
    entry(705, 0, "unknown", Scalar::Text),
    entry(2275, 1263, "cstring", Scalar::Text),
    entry(1790, 2201, "refcursor", Scalar::Text),
    entry(18, 1002, "\"char\"", Scalar::Char),
    entry(17, 1001, "bytea", Scalar::Bytea),
    entry(1082, 1182, "date", Scalar::Date),
    entry(1083, 1183, "time", Scalar::Time),
    entry(1266, 1270, "timetz", Scalar::Timetz),
    entry(1114, 1115, "timestamp", Scalar::Timestamp),
    entry(1184, 1185, "timestamptz", Scalar::Timestamptz),
    entry(1186, 1187, "interval", Scalar::Interval),
    entry(2950, 2951, "uuid", Scalar::Uuid),
    entry(869, 1041, "inet", Scalar::Inet),
    entry(650, 651, "cidr", Scalar::Cidr),
    entry(829, 1040, "macaddr", Scalar::Macaddr),
    entry(774, 775, "macaddr8", Scalar::Macaddr8),
    entry(114, 199, "json", Scalar::Json),
    entry(3802, 3807, "jsonb", Scalar::Jsonb),
    // Their text contains more than their binary form, or needs the server's settings or catalogue.
    entry(790, 791, "money", Scalar::Other),
    entry(1560, 1561, "bit", Scalar::Other),
    entry(1562, 1563, "varbit", Scalar::Other),
    entry(142, 143, "xml", Scalar::Other),
    entry(4072, 4073, "jsonpath", Scalar::Other),
    entry(3614, 3643, "tsvector", Scalar::Other),
    entry(3615, 3645, "tsquery", Scalar::Other),
    entry(600, 1017, "point", Scalar::Other),
    entry(601, 1018, "lseg", Scalar::Other),
    entry(602, 1019, "path", Scalar::Other),
    entry(603, 0, "box", Scalar::Other),
    entry(604, 1027, "polygon", Scalar::Other),
    entry(628, 629, "line", Scalar::Other),
    entry(718, 719, "circle", Scalar::Other),
    entry(3904, 3905, "int4range", Scalar::Other),
    entry(3926, 3927, "int8range", Scalar::Other),
    entry(3906, 3907, "numrange", Scalar::Other),
    entry(3908, 3909, "tsrange", Scalar::Other),
    entry(3910, 3911, "tstzrange", Scalar::Other),
    entry(3912, 3913, "daterange", Scalar::Other),
    entry(4451, 6150, "int4multirange", Scalar::Other),
    entry(4536, 6157, "int8multirange", Scalar::Other),
    entry(4532, 6151, "nummultirange", Scalar::Other),
    entry(4533, 6152, "tsmultirange", Scalar::Other),
    entry(4534, 6153, "tstzmultirange", Scalar::Other),
    entry(4535, 6155, "datemultirange", Scalar::Other),
    entry(2249, 2287, "record", Scalar::Other),
    entry(27, 1010, "tid", Scalar::Other),
    entry(5069, 271, "xid8", Scalar::Other),
    entry(3220, 3221, "pg_lsn", Scalar::Other),
    entry(24, 1008, "regproc", Scalar::Other),
    entry(2202, 2207, "regprocedure", Scalar::Other),
    entry(2203, 2208, "regoper", Scalar::Other),
    entry(2204, 2209, "regoperator", Scalar::Other),
    entry(2205, 2210, "regclass", Scalar::Other),
    entry(2206, 2211, "regtype", Scalar::Other),
    entry(4096, 4097, "regrole", Scalar::Other),
    entry(4089, 4090, "regnamespace", Scalar::Other),
    entry(3734, 3735, "regconfig", Scalar::Other),
    entry(3769, 3770, "regdictionary", Scalar::Other),
    entry(4191, 4192, "regcollation", Scalar::Other),
];
