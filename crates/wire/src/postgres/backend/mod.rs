//! Messages of the server: one file per message, each decoded in place and checked to its last
//! byte.
//!
//! A count or length that does not match the received bytes is an error, so that iterating over a
//! decoded message cannot fail.

pub(crate) mod authentication;
mod backend_key_data;
mod command_complete;
mod copy_response;
mod data_row;
mod error_response;
mod negotiate_protocol_version;
mod notification_response;
mod parameter_description;
mod parameter_status;
mod ready_for_query;
mod row_description;

pub use authentication::{Authentication, Mechanisms};
pub use command_complete::CommandTag;
pub use copy_response::CopyResponse;
pub use data_row::{DataRow, Fields};
pub use error_response::{ErrorResponse, NoticeResponse, SqlState};
pub use negotiate_protocol_version::NegotiateProtocolVersion;
pub use notification_response::NotificationResponse;
pub use parameter_description::ParameterDescription;
pub use parameter_status::ParameterStatus;
pub use ready_for_query::TransactionStatus;
pub(crate) use ready_for_query::ready_for_query;
pub use row_description::{Column, Columns, RowDescription};
