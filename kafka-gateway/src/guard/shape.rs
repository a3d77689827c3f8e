//! The shapes of the requests that are served, as data: which fields a version has, in order.
//!
//! Field lists follow the request schemas of Apache Kafka 4.1, for the versions in `api::TABLE`
//! only. What is nullable here is what the message codec can hold as null.

/// One field and the versions, inclusive, that have it.
pub(crate) struct Field {
    pub(crate) from: i16,
    pub(crate) to: i16,
    pub(crate) kind: Kind,
}

/// What a field looks like on the wire.
pub(crate) enum Kind {
    Bool,
    /// That many bytes: integers and UUIDs.
    Fixed(usize),
    String,
    NullableString,
    Bytes,
    NullableBytes,
    Array(Element),
    NullableArray(Element),
    /// A byte that is 1 before the fields, or -1 in their place.
    NullableStruct(&'static [Field]),
}

/// What an array holds.
pub(crate) enum Element {
    Scalar(&'static Kind),
    Struct(&'static [Field]),
}

const fn always(kind: Kind) -> Field {
    Field { from: 0, to: i16::MAX, kind }
}

const fn since(from: i16, kind: Kind) -> Field {
    Field { from, to: i16::MAX, kind }
}

const fn until(to: i16, kind: Kind) -> Field {
    Field { from: 0, to, kind }
}

const fn between(from: i16, to: i16, kind: Kind) -> Field {
    Field { from, to, kind }
}

const fn array(fields: &'static [Field]) -> Kind {
    Kind::Array(Element::Struct(fields))
}

const fn nullable_array(fields: &'static [Field]) -> Kind {
    Kind::NullableArray(Element::Struct(fields))
}

const INT8: Kind = Kind::Fixed(1);
const INT16: Kind = Kind::Fixed(2);
const INT32: Kind = Kind::Fixed(4);
const INT64: Kind = Kind::Fixed(8);
const FLOAT64: Kind = Kind::Fixed(8);
const UUID: Kind = Kind::Fixed(16);
const INT32_ARRAY: Kind = Kind::Array(Element::Scalar(&INT32));
const STRING_ARRAY: Kind = Kind::Array(Element::Scalar(&Kind::String));

pub(crate) const API_VERSIONS: &[Field] = &[since(3, Kind::String), since(3, Kind::String)];

pub(crate) const SASL_HANDSHAKE: &[Field] = &[always(Kind::String)];

pub(crate) const SASL_AUTHENTICATE: &[Field] = &[always(Kind::Bytes)];

pub(crate) const METADATA: &[Field] = &[
    always(nullable_array(&[since(10, UUID), always(Kind::NullableString)])),
    since(4, Kind::Bool),
    between(8, 10, Kind::Bool),
    since(8, Kind::Bool),
];

pub(crate) const PRODUCE: &[Field] = &[
    always(Kind::NullableString),
    always(INT16),
    always(INT32),
    always(array(&[
        until(12, Kind::String),
        since(13, UUID),
        always(array(&[always(INT32), always(Kind::NullableBytes)])),
    ])),
];

pub(crate) const FETCH: &[Field] = &[
    until(14, INT32),
    always(INT32),
    always(INT32),
    always(INT32),
    always(INT8),
    since(7, INT32),
    since(7, INT32),
    always(array(&[
        until(12, Kind::String),
        since(13, UUID),
        always(array(&[
            always(INT32),
            since(9, INT32),
            always(INT64),
            since(12, INT32),
            since(5, INT64),
            always(INT32),
        ])),
    ])),
    since(7, array(&[until(12, Kind::String), since(13, UUID), always(INT32_ARRAY)])),
    since(11, Kind::String),
];

pub(crate) const LIST_OFFSETS: &[Field] = &[
    always(INT32),
    since(2, INT8),
    always(array(&[always(Kind::String), always(array(&[always(INT32), since(4, INT32), always(INT64)]))])),
    since(10, INT32),
];

pub(crate) const INIT_PRODUCER_ID: &[Field] =
    &[always(Kind::NullableString), always(INT32), since(3, INT64), since(3, INT16)];

const TXN_TOPICS: Kind = array(&[always(Kind::String), always(INT32_ARRAY)]);

pub(crate) const ADD_PARTITIONS_TO_TXN: &[Field] = &[
    since(
        4,
        array(&[always(Kind::String), always(INT64), always(INT16), always(Kind::Bool), always(TXN_TOPICS)]),
    ),
    until(3, Kind::String),
    until(3, INT64),
    until(3, INT16),
    until(3, TXN_TOPICS),
];

pub(crate) const ADD_OFFSETS_TO_TXN: &[Field] =
    &[always(Kind::String), always(INT64), always(INT16), always(Kind::String)];

pub(crate) const END_TXN: &[Field] =
    &[always(Kind::String), always(INT64), always(INT16), always(Kind::Bool)];

pub(crate) const WRITE_TXN_MARKERS: &[Field] =
    &[always(array(&[always(INT64), always(INT16), always(Kind::Bool), always(TXN_TOPICS), always(INT32)]))];

pub(crate) const TXN_OFFSET_COMMIT: &[Field] = &[
    always(Kind::String),
    always(Kind::String),
    always(INT64),
    always(INT16),
    since(3, INT32),
    since(3, Kind::String),
    since(3, Kind::NullableString),
    always(array(&[
        always(Kind::String),
        always(array(&[always(INT32), always(INT64), since(2, INT32), always(Kind::NullableString)])),
    ])),
];

pub(crate) const DESCRIBE_TRANSACTIONS: &[Field] = &[always(STRING_ARRAY)];

pub(crate) const LIST_TRANSACTIONS: &[Field] = &[
    always(STRING_ARRAY),
    always(Kind::Array(Element::Scalar(&INT64))),
    since(1, INT64),
    since(2, Kind::NullableString),
];

pub(crate) const OFFSET_FOR_LEADER_EPOCH: &[Field] = &[
    since(3, INT32),
    always(array(&[always(Kind::String), always(array(&[always(INT32), always(INT32), always(INT32)]))])),
];

pub(crate) const FIND_COORDINATOR: &[Field] =
    &[until(3, Kind::String), since(1, INT8), since(4, STRING_ARRAY)];

pub(crate) const JOIN_GROUP: &[Field] = &[
    always(Kind::String),
    always(INT32),
    since(1, INT32),
    always(Kind::String),
    since(5, Kind::NullableString),
    always(Kind::String),
    always(array(&[always(Kind::String), always(Kind::Bytes)])),
    since(8, Kind::NullableString),
];

pub(crate) const SYNC_GROUP: &[Field] = &[
    always(Kind::String),
    always(INT32),
    always(Kind::String),
    since(3, Kind::NullableString),
    since(5, Kind::NullableString),
    since(5, Kind::NullableString),
    always(array(&[always(Kind::String), always(Kind::Bytes)])),
];

pub(crate) const HEARTBEAT: &[Field] =
    &[always(Kind::String), always(INT32), always(Kind::String), since(3, Kind::NullableString)];

pub(crate) const LEAVE_GROUP: &[Field] = &[
    always(Kind::String),
    until(2, Kind::String),
    since(3, array(&[always(Kind::String), always(Kind::NullableString), since(5, Kind::NullableString)])),
];

pub(crate) const DESCRIBE_GROUPS: &[Field] = &[always(STRING_ARRAY), since(3, Kind::Bool)];

pub(crate) const LIST_GROUPS: &[Field] = &[since(4, STRING_ARRAY), since(5, STRING_ARRAY)];

pub(crate) const DELETE_GROUPS: &[Field] = &[always(STRING_ARRAY)];

pub(crate) const OFFSET_DELETE: &[Field] =
    &[always(Kind::String), always(array(&[always(Kind::String), always(array(&[always(INT32)]))]))];

pub(crate) const CONSUMER_GROUP_HEARTBEAT: &[Field] = &[
    always(Kind::String),
    always(Kind::String),
    always(INT32),
    always(Kind::NullableString),
    always(Kind::NullableString),
    always(INT32),
    always(Kind::NullableArray(Element::Scalar(&Kind::String))),
    since(1, Kind::NullableString),
    always(Kind::NullableString),
    always(nullable_array(&[always(UUID), always(INT32_ARRAY)])),
];

pub(crate) const CONSUMER_GROUP_DESCRIBE: &[Field] = &[always(STRING_ARRAY), always(Kind::Bool)];

pub(crate) const OFFSET_COMMIT: &[Field] = &[
    always(Kind::String),
    always(INT32),
    always(Kind::String),
    since(7, Kind::NullableString),
    until(4, INT64),
    always(array(&[
        always(Kind::String),
        always(array(&[always(INT32), always(INT64), since(6, INT32), always(Kind::NullableString)])),
    ])),
];

pub(crate) const OFFSET_FETCH: &[Field] = &[
    until(7, Kind::String),
    until(7, nullable_array(&[always(Kind::String), always(INT32_ARRAY)])),
    since(
        8,
        array(&[
            always(Kind::String),
            since(9, Kind::NullableString),
            since(9, INT32),
            always(nullable_array(&[always(Kind::String), always(INT32_ARRAY)])),
        ]),
    ),
    since(7, Kind::Bool),
];

pub(crate) const CREATE_TOPICS: &[Field] = &[
    always(array(&[
        always(Kind::String),
        always(INT32),
        always(INT16),
        always(array(&[always(INT32), always(INT32_ARRAY)])),
        always(array(&[always(Kind::String), always(Kind::NullableString)])),
    ])),
    always(INT32),
    always(Kind::Bool),
];

pub(crate) const DELETE_TOPICS: &[Field] =
    &[since(6, array(&[always(Kind::NullableString), always(UUID)])), until(5, STRING_ARRAY), always(INT32)];

pub(crate) const DELETE_RECORDS: &[Field] =
    &[always(array(&[always(Kind::String), always(array(&[always(INT32), always(INT64)]))])), always(INT32)];

pub(crate) const DESCRIBE_CONFIGS: &[Field] = &[
    always(array(&[
        always(INT8),
        always(Kind::String),
        always(Kind::NullableArray(Element::Scalar(&Kind::String))),
    ])),
    always(Kind::Bool),
    since(3, Kind::Bool),
];

pub(crate) const DESCRIBE_CLUSTER: &[Field] = &[always(Kind::Bool), since(1, INT8), since(2, Kind::Bool)];

pub(crate) const ALTER_CONFIGS: &[Field] = &[
    always(array(&[
        always(INT8),
        always(Kind::String),
        always(array(&[always(Kind::String), always(Kind::NullableString)])),
    ])),
    always(Kind::Bool),
];

pub(crate) const INCREMENTAL_ALTER_CONFIGS: &[Field] = &[
    always(array(&[
        always(INT8),
        always(Kind::String),
        always(array(&[always(Kind::String), always(INT8), always(Kind::NullableString)])),
    ])),
    always(Kind::Bool),
];

pub(crate) const CREATE_PARTITIONS: &[Field] = &[
    always(array(&[always(Kind::String), always(INT32), always(nullable_array(&[always(INT32_ARRAY)]))])),
    always(INT32),
    always(Kind::Bool),
];

pub(crate) const DESCRIBE_LOG_DIRS: &[Field] =
    &[always(nullable_array(&[always(Kind::String), always(INT32_ARRAY)]))];

pub(crate) const DESCRIBE_TOPIC_PARTITIONS: &[Field] = &[
    always(array(&[always(Kind::String)])),
    always(INT32),
    always(Kind::NullableStruct(&[always(Kind::String), always(INT32)])),
];

pub(crate) const DESCRIBE_PRODUCERS: &[Field] =
    &[always(array(&[always(Kind::String), always(INT32_ARRAY)]))];

pub(crate) const ALTER_PARTITION_REASSIGNMENTS: &[Field] = &[
    always(INT32),
    since(1, Kind::Bool),
    always(array(&[
        always(Kind::String),
        always(array(&[always(INT32), always(Kind::NullableArray(Element::Scalar(&INT32)))])),
    ])),
];

pub(crate) const LIST_PARTITION_REASSIGNMENTS: &[Field] =
    &[always(INT32), always(nullable_array(&[always(Kind::String), always(INT32_ARRAY)]))];

pub(crate) const ELECT_LEADERS: &[Field] =
    &[since(1, INT8), always(nullable_array(&[always(Kind::String), always(INT32_ARRAY)])), always(INT32)];

pub(crate) const DESCRIBE_CLIENT_QUOTAS: &[Field] =
    &[always(array(&[always(Kind::String), always(INT8), always(Kind::NullableString)])), always(Kind::Bool)];

pub(crate) const ALTER_CLIENT_QUOTAS: &[Field] = &[
    always(array(&[
        always(array(&[always(Kind::String), always(Kind::NullableString)])),
        always(array(&[always(Kind::String), always(FLOAT64), always(Kind::Bool)])),
    ])),
    always(Kind::Bool),
];

pub(crate) const LIST_CONFIG_RESOURCES: &[Field] = &[since(1, Kind::Array(Element::Scalar(&INT8)))];

pub(crate) const ACL_FILTER: &[Field] = &[
    always(INT8),
    always(Kind::NullableString),
    always(INT8),
    always(Kind::NullableString),
    always(Kind::NullableString),
    always(INT8),
    always(INT8),
];

pub(crate) const CREATE_ACLS: &[Field] = &[always(array(&[
    always(INT8),
    always(Kind::String),
    always(INT8),
    always(Kind::String),
    always(Kind::String),
    always(INT8),
    always(INT8),
]))];

pub(crate) const DELETE_ACLS: &[Field] = &[always(array(ACL_FILTER))];

pub(crate) const DESCRIBE_USER_SCRAM_CREDENTIALS: &[Field] =
    &[always(nullable_array(&[always(Kind::String)]))];

pub(crate) const ALTER_USER_SCRAM_CREDENTIALS: &[Field] = &[
    always(array(&[always(Kind::String), always(INT8)])),
    always(array(&[
        always(Kind::String),
        always(INT8),
        always(INT32),
        always(Kind::Bytes),
        always(Kind::Bytes),
    ])),
];
