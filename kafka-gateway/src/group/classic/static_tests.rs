//! Scenes with static members (KIP-345).

use strandline_storage::log::GroupChange;

use super::tests::{Scene, heartbeat, join, protocols, seconds, sync};
use super::*;

fn static_caller(id: &str, instance: &str) -> Caller {
    Caller { member_id: id.to_owned(), instance_id: Some(instance.to_owned()) }
}

fn joining(id: &str, instance: &str) -> Input {
    join(id).with(|join| join.caller.instance_id = Some(instance.to_owned())).input()
}

/// Members `a` (the leader, instance `i`) and `b` (instance `j`) in a stable group.
fn stable() -> Scene {
    let mut scene = Scene::new(3);
    scene.step(joining("a", "i"));
    let b = scene.step(joining("b", "j"));
    scene.pass(seconds(9));
    assert_eq!((scene.joined(b).generation, scene.joined(b).leader.as_str()), (1, "a"));
    scene.step(sync("b", 1, &[]));
    scene.step(sync("a", 1, &[("a", b"1"), ("b", b"2")]));
    scene
}

/// Reported as redpanda#3842, redpanda#4189.
#[test]
fn a_member_that_comes_back_takes_its_place_without_a_rebalance() {
    let mut scene = stable();
    let events = scene.written.len();
    let b = scene.step(joining("b2", "j"));
    assert_eq!((scene.joined(b).generation, scene.joined(b).leader.as_str()), (1, "a"));
    assert!(matches!(&scene.written[events..], [GroupChange::Classic(group)] if group.members.len() == 2));
    let b = scene.step(sync("b2", 1, &[]));
    assert_eq!(scene.assignment(b), b"2");
    let a = scene.step(heartbeat("a", 1));
    assert_eq!(scene.reply(a), Some(&Reply::Done));
}

#[test]
fn the_old_member_id_is_fenced() {
    let mut scene = stable();
    scene.step(joining("b2", "j"));
    let old = static_caller("b", "j");
    let requests = [
        Input::Heartbeat { caller: old.clone(), generation: 1 },
        Input::Commit { caller: old.clone(), generation: 1 },
        join("b").again().with(|join| join.caller.instance_id = Some("j".to_owned())).input(),
    ];
    for request in requests {
        let waiter = scene.step(request);
        assert_eq!(scene.error(waiter), GroupError::FencedInstance);
    }
    let unknown = scene.step(Input::Heartbeat { caller: static_caller("b", "k"), generation: 1 });
    assert_eq!(scene.error(unknown), GroupError::UnknownMember);
}

#[test]
fn a_leader_that_comes_back_is_told_not_to_assign() {
    let mut scene = stable();
    let a = scene.step(joining("a2", "i"));
    let joined = scene.joined(a);
    assert_eq!((joined.leader.as_str(), joined.skip_assignment, joined.members.len()), ("a2", true, 2));
    let mut scene = stable();
    let older = join("a2").with(|join| {
        join.caller.instance_id = Some("i".to_owned());
        join.skipping = Skipping::NotUnderstood;
    });
    let a = scene.step(older.input());
    let joined = scene.joined(a);
    assert_eq!((joined.leader.as_str(), joined.skip_assignment, joined.members.len()), ("a", false, 0));
}

#[test]
fn a_member_that_comes_back_with_another_protocol_begins_a_rebalance() {
    let mut scene = Scene::new(3);
    let both = |join: &mut Join| join.protocols = protocols(&["range", "sticky"]);
    let with = |id: &str, instance: &str| {
        join(id).with(both).with(|join| join.caller.instance_id = Some(instance.to_owned()))
    };
    scene.step(with("a", "i").input());
    scene.step(with("b", "j").input());
    scene.pass(seconds(9));
    scene.step(sync("b", 1, &[]));
    scene.step(sync("a", 1, &[]));
    let b = scene.step(with("b2", "j").with(|join| join.protocols = protocols(&["sticky"])).input());
    assert_eq!(scene.reply(b), None);
    let a = scene.step(heartbeat("a", 1));
    assert_eq!(scene.error(a), GroupError::RebalanceInProgress);
}

#[test]
fn a_static_member_that_does_not_rejoin_keeps_its_place_until_its_session_ends() {
    let mut scene = Scene::new(0);
    let long = |id: &str| {
        join(id).with(|join| {
            join.caller.instance_id = Some("i".to_owned());
            join.session_timeout = seconds(1000);
        })
    };
    scene.step(long("a").input());
    scene.step(join("b").input());
    scene.pass(seconds(60));
    let b = scene.step(join("b").again().input());
    let joined = scene.joined(b);
    assert_eq!((joined.generation, joined.leader.as_str(), joined.members.len()), (2, "b", 2));
    assert!(joined.members.iter().any(|member| member.instance_id.as_deref() == Some("i")));
}

#[test]
fn static_members_leave_by_their_instance_ids() {
    let mut scene = stable();
    let left = scene.step(Input::Leave {
        members: vec![static_caller("", "j"), static_caller("x", "i"), static_caller("", "k")],
    });
    let expected = vec![Ok(()), Err(GroupError::FencedInstance), Err(GroupError::UnknownMember)];
    assert_eq!(scene.reply(left), Some(&Reply::Left(expected)));
    let a = scene.step(heartbeat("a", 1));
    assert_eq!(scene.error(a), GroupError::RebalanceInProgress);
}

#[test]
fn a_waiting_join_of_the_old_member_id_is_fenced() {
    let mut scene = Scene::new(3);
    let first = scene.step(joining("a", "i"));
    let second = scene.step(joining("a2", "i"));
    assert_eq!(scene.error(first), GroupError::FencedInstance);
    scene.pass(seconds(9));
    assert_eq!(scene.joined(second).member_id, "a2");
}
