//! DescribeCluster (key 60): the cluster and its brokers.
//!
//! # Behavior
//! - One broker, which is the controller too.
//! - Everybody may ask. Authorized operations are "not given" (the smallest 32-bit integer) unless they are
//!   asked for, and none for those who may not describe the cluster.
//!
//! # Version notes
//! - 1: endpoint type; brokers (1) are described. Controllers (2) have no address of their own, which is
//!   MISMATCHED_ENDPOINT_TYPE; anything else is UNSUPPORTED_ENDPOINT_TYPE.
//! - 2: fenced brokers; there are none.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;

use super::metadata::cluster_operations;
use crate::context::Context;
use crate::error_code::ErrorCode;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;
const OPERATIONS_NOT_GIVEN: i32 = i32::MIN;

pub(super) async fn answer(context: Context, request: DescribeClusterRequest) -> DescribeClusterResponse {
    let checked = match request.endpoint_type {
        BROKERS => Ok(()),
        CONTROLLERS => Err(ErrorCode::MismatchedEndpointType),
        _ => Err(ErrorCode::UnsupportedEndpointType),
    };
    if let Err(error) = checked {
        return DescribeClusterResponse::default().with_error_code(context.code(error));
    }
    let operations = match request.include_cluster_authorized_operations {
        true => cluster_operations(&context),
        false => OPERATIONS_NOT_GIVEN,
    };
    let (host, port) = context.advertised();
    let node_id = context.settings().node_id;
    let broker = DescribeClusterBroker::default()
        .with_broker_id(node_id.into())
        .with_host(StrBytes::from_string(host))
        .with_port(port);
    DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(context.log().cluster_id().to_owned()))
        .with_controller_id(node_id.into())
        .with_brokers(vec![broker])
        .with_cluster_authorized_operations(operations)
}
