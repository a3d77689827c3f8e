//! Several ports of one gateway: their addresses, TLS, limits, and clients that speak the wrong way.

use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest,
};
use kafka_protocol::protocol::StrBytes;
use strandline_kafka_gateway::{GatewaySettings, ListenerSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::certificates::{Authority, Clients};
use crate::support::*;

fn plain() -> ListenerSettings {
    ListenerSettings::default()
}

fn advertising(host: &str, port: u16) -> ListenerSettings {
    ListenerSettings { advertised: Some((host.to_owned(), port)), ..plain() }
}

fn with_tls(authority: &Authority, clients: Clients) -> ListenerSettings {
    ListenerSettings { tls: Some(authority.server(clients)), ..plain() }
}

/// The addresses that a client is told by the three requests that tell one.
async fn told(client: &mut Client) -> [(String, i32); 3] {
    let broker = client.call(1, &MetadataRequest::default().with_topics(None)).await.brokers.remove(0);
    let request =
        FindCoordinatorRequest::default().with_coordinator_keys(vec![StrBytes::from_static_str("g")]);
    let coordinator = client.call(4, &request).await.coordinators.remove(0);
    let described = client.call(0, &DescribeClusterRequest::default()).await.brokers.remove(0);
    [
        (broker.host.to_string(), broker.port),
        (coordinator.host.to_string(), coordinator.port),
        (described.host.to_string(), described.port),
    ]
}

#[tokio::test]
async fn clients_are_told_the_address_of_the_port_that_they_came_by() {
    let ports = vec![advertising("inside.example", 19092), advertising("outside.example", 29092), plain()];
    let gateway = TestGateway::start_listening(ports, settings()).await;
    let own = gateway.addresses[2];
    let expected = [
        ("inside.example".to_owned(), 19092),
        ("outside.example".to_owned(), 29092),
        (own.ip().to_string(), i32::from(own.port())),
    ];
    for (port, address) in expected.into_iter().enumerate() {
        let mut client = gateway.connect_to(port).await;
        assert_eq!(told(&mut client).await, [address.clone(), address.clone(), address]);
    }
}

#[tokio::test]
async fn records_go_through_tls_and_come_back_by_another_port() {
    let authority = Authority::new();
    let ports = vec![plain(), with_tls(&authority, Clients::NotAsked)];
    let gateway = TestGateway::start_listening(ports, settings()).await;
    let socket = TcpStream::connect(gateway.addresses[1]).await.unwrap();
    let mut secure = Client::over(authority.connect(socket, None).await.unwrap());
    secure.create_topic("t", 1).await;
    // Larger than any buffer on the way.
    let large = vec![7; 900_000];
    let appended = secure.produce("t", 0, batch(&[(1, &large)])).await;
    assert_eq!((appended.error_code, appended.base_offset), (0, 0));
    let mut plain = gateway.connect_to(0).await;
    let read = plain.fetch("t", 0, Fetch::from(0)).await;
    let read_again = secure.fetch("t", 0, Fetch::from(0)).await;
    assert!(read.records.as_ref().is_some_and(|records| records.len() > 900_000));
    assert_eq!(read.records, read_again.records);
}

#[tokio::test]
async fn plaintext_on_a_port_with_tls_is_closed() {
    let authority = Authority::new();
    let gateway =
        TestGateway::start_listening(vec![with_tls(&authority, Clients::NotAsked)], settings()).await;
    let mut client = gateway.connect().await;
    client.send(3, &ApiVersionsRequest::default()).await;
    client.assert_closed().await;
}

#[tokio::test]
async fn tls_on_a_port_without_it_is_closed() {
    let authority = Authority::new();
    let gateway = TestGateway::start().await;
    let socket = TcpStream::connect(gateway.address).await.unwrap();
    assert!(within(authority.connect(socket, None)).await.is_err());
    gateway.connect().await.create_topic("t", 1).await;
}

#[tokio::test]
async fn a_handshake_that_stalls_ends_and_holds_up_nobody() {
    let authority = Authority::new();
    let ports = vec![with_tls(&authority, Clients::NotAsked)];
    let settings = GatewaySettings { authentication_timeout: Duration::from_millis(300), ..settings() };
    let gateway = TestGateway::start_listening(ports, settings).await;
    let mut silent = TcpStream::connect(gateway.address).await.unwrap();
    let mut halting = TcpStream::connect(gateway.address).await.unwrap();
    halting.write_all(&[22, 3, 1]).await.unwrap();
    let socket = TcpStream::connect(gateway.address).await.unwrap();
    let mut client = Client::over(within(authority.connect(socket, None)).await.unwrap());
    client.create_topic("t", 1).await;
    for stalled in [&mut silent, &mut halting] {
        assert_eq!(within(stalled.read(&mut [0])).await.unwrap_or(0), 0, "it was closed");
    }
}

#[tokio::test]
async fn a_certificate_is_asked_for_where_it_is_required() {
    let authority = Authority::new();
    let ports = [Clients::Optional, Clients::Required].map(|clients| with_tls(&authority, clients));
    let gateway = TestGateway::start_listening(ports.to_vec(), settings()).await;
    for (port, certified, is_served) in
        [(0, false, true), (0, true, true), (1, false, false), (1, true, true)]
    {
        let identity = certified.then(|| authority.sign(&[(rcgen::DnType::CommonName, "app")]));
        let socket = TcpStream::connect(gateway.addresses[port]).await.unwrap();
        // With TLS 1.3 a client learns only later that it was refused.
        let served = match authority.connect(socket, identity).await {
            Ok(stream) => answers(Client::over(stream)).await,
            Err(_) => false,
        };
        assert_eq!(served, is_served, "port {port}, certificate {certified}");
    }
    let stranger = Authority::new().sign(&[(rcgen::DnType::CommonName, "app")]);
    let socket = TcpStream::connect(gateway.addresses[0]).await.unwrap();
    let served = match authority.connect(socket, Some(stranger)).await {
        Ok(stream) => answers(Client::over(stream)).await,
        Err(_) => false,
    };
    assert!(!served, "a certificate of another authority is none");
}

/// Whether a client gets an answer to its first request.
async fn answers(mut client: Client) -> bool {
    let head = bare_head(key(ApiKey::ApiVersions), 0);
    // It may be refused while it writes.
    let _ = client.socket.write_all(&[&[0, 0, 0, 10], &head[..]].concat()).await;
    let _ = client.socket.flush().await;
    client.receive_frame().await.is_some()
}

#[tokio::test]
async fn each_port_has_room_for_its_own_connections() {
    let settings = GatewaySettings { connections_max: 1, ..settings() };
    let gateway = TestGateway::start_listening(vec![plain(), plain()], settings).await;
    let mut first = gateway.connect_to(0).await;
    first.create_topic("t", 1).await;
    gateway.connect_to(0).await.assert_closed().await;
    let mut second = gateway.connect_to(1).await;
    second.create_topic("u", 1).await;
    gateway.connect_to(1).await.assert_closed().await;
    first.create_topic("v", 1).await;
}

#[tokio::test]
async fn all_ports_are_closed_when_the_gateway_stops() {
    let gateway = TestGateway::start_listening(vec![plain(), plain()], settings()).await;
    let addresses = gateway.addresses.clone();
    let mut open = gateway.connect_to(1).await;
    open.create_topic("t", 1).await;
    gateway.stop().await;
    open.assert_closed().await;
    for address in addresses {
        assert!(TcpStream::connect(address).await.is_err());
    }
}
