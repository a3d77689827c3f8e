"""Consumer groups of the classic protocol: joining, syncing, leaving, static members, offsets."""

from batches import batch

T = 1_700_000_000_000
PROTOCOLS = [{"name": "range", "metadata": b"one"}]


def join(group, **fields):
    return {
        "group_id": group,
        "session_timeout_ms": 10000,
        "rebalance_timeout_ms": 5000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        **fields,
    }


def sync(group, member, generation, assignments=(), **fields):
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": list(assignments),
        **fields,
    }


def beat(group, member, generation, instance=None):
    return {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}


def stable(session, group, **fields):
    """A group with one member, which has its assignment: the member's id and the generation."""
    first = session.raw("JoinGroup", 7, **join(group, **fields))
    member = first["member_id"]
    if first["error_code"] == 79:
        first = session.raw("JoinGroup", 7, **join(group, member_id=member, **fields))
    assignments = [{"member_id": member, "assignment": b"all"}]
    instance = fields.get("group_instance_id")
    answer = session.raw(
        "SyncGroup", 5, **sync(group, member, first["generation_id"], assignments, group_instance_id=instance)
    )
    assert answer["error_code"] == 0, answer
    return member, first["generation_id"]


def joining(session):
    session.wait_for_coordinator()
    group = session.group("joined")
    for name, fields in {
        "empty group": {"group_id": ""},
        "short session": {"session_timeout_ms": 5999},
        "long session": {"session_timeout_ms": 1800001},
        "negative session": {"session_timeout_ms": -1},
        "unknown member": {"member_id": "nobody"},
        "no protocols": {"protocols": []},
        "empty protocol type": {"protocol_type": ""},
        "without an id": {},
    }.items():
        session.step(f"JoinGroup: {name}", "JoinGroup", 7, **join(group, **{**fields}))
    session.step("JoinGroup 9: without an id", "JoinGroup", 9, **join(group))
    old = {key: value for key, value in join(session.group("old")).items() if key != "group_instance_id"}
    session.step("JoinGroup 3: without an id", "JoinGroup", 3, **old)
    older = {key: value for key, value in old.items() if key != "rebalance_timeout_ms"}
    session.step("JoinGroup 0", "JoinGroup", 0, **{**older, "group_id": session.group("older")})


def life(session):
    session.wait_for_coordinator()
    session.create("any")
    group = session.group("lives")
    member = session.raw("JoinGroup", 7, **join(group))["member_id"]
    joined = session.step("joined", "JoinGroup", 7, **join(group, member_id=member))
    generation = joined["generation_id"]
    session.step("a heartbeat before the sync", "Heartbeat", 4, **beat(group, member, generation))
    commit(session, "a commit before the sync", group, generation, member)
    assignments = [{"member_id": member, "assignment": b"all"}]
    session.step("synced", "SyncGroup", 5, **sync(group, member, generation, assignments))
    session.step("synced again", "SyncGroup", 5, **sync(group, member, generation))
    for name, request in {
        "another generation": sync(group, member, generation + 1),
        "unknown member": sync(group, "nobody", generation),
        "unknown group": sync(session.group("no"), member, generation),
        "empty group": sync("", member, generation),
        "another type": sync(group, member, generation, protocol_type="connect"),
        "another protocol": sync(group, member, generation, protocol_name="roundrobin"),
    }.items():
        session.step(f"SyncGroup: {name}", "SyncGroup", 5, **request)
    for name, request in {
        "good": beat(group, member, generation),
        "another generation": beat(group, member, generation + 1),
        "negative generation": beat(group, member, -1),
        "unknown member": beat(group, "nobody", generation),
        "unknown group": beat(session.group("no"), member, generation),
        "empty group": beat("", member, generation),
        "an instance id that is not there": beat(group, member, generation, "i"),
    }.items():
        session.step(f"Heartbeat: {name}", "Heartbeat", 4, **request)
    other = [{"name": "other", "metadata": b"x"}]
    session.step("a member with another protocol", "JoinGroup", 7, **join(group, protocols=other))
    session.step("a member with another type", "JoinGroup", 7, **join(group, protocol_type="connect"))
    session.step("the leader joins again", "JoinGroup", 7, **join(group, member_id=member))


def two_members(session):
    session.wait_for_coordinator()
    session.create("any")
    group = session.group("two")
    first, generation = stable(session, group)
    second = session.raw("JoinGroup", 7, **join(group))["member_id"]
    session.names.get("member", {}).clear()
    waits = session.ask_elsewhere(
        "JoinGroup", 7, **join(group, member_id=second, protocols=[{"name": "range", "metadata": b"two"}])
    )
    beats = session.raw("Heartbeat", 4, **beat(group, first, generation))
    for _ in range(200):
        if beats["error_code"]:
            break
        beats = session.raw("Heartbeat", 4, **beat(group, first, generation))
    session.keep("a heartbeat during the rebalance", session.plain(beats))
    commit(session, "a commit during the rebalance", group, generation, first)
    session.step("a sync during the rebalance", "SyncGroup", 5, **sync(group, first, generation))
    answer = session.raw("JoinGroup", 7, **join(group, member_id=first))
    answer["members"].sort(key=lambda member: member["metadata"])
    session.keep("the leader's answer", session.plain(answer))
    waits("the follower's answer")
    generation = answer["generation_id"]
    parts = [{"member_id": first, "assignment": b"first"}]
    follower = session.ask_elsewhere("SyncGroup", 5, **sync(group, second, generation))
    session.step("the leader leaves one out", "SyncGroup", 5, **sync(group, first, generation, parts))
    follower("the one that was left out")
    session.step(
        "the follower joins again with the same",
        "JoinGroup",
        7,
        **join(group, member_id=second, protocols=[{"name": "range", "metadata": b"two"}]),
    )
    session.step(
        "a member leaves", "LeaveGroup", 3, group_id=group, members=[{"member_id": second, "group_instance_id": None}]
    )
    session.step("a heartbeat after that", "Heartbeat", 4, **beat(group, first, generation))


def listing(session):
    session.wait_for_coordinator()
    group = session.group("listed")
    member, generation = stable(session, group)
    for version in (4, 5, 6):
        names = [group, session.group("absent")]
        session.step(
            f"DescribeGroups {version}", "DescribeGroups", version, groups=names, include_authorized_operations=False
        )
    for name, filters in {
        "stable": {"states_filter": ["Stable"], "types_filter": []},
        "other case": {"states_filter": ["sTABLE"], "types_filter": ["CLASSIC"]},
        "empty": {"states_filter": ["Empty"], "types_filter": []},
        "consumer": {"states_filter": [], "types_filter": ["consumer"]},
        "unknown state": {"states_filter": ["Nope"], "types_filter": []},
        "unknown type": {"states_filter": [], "types_filter": ["nope"]},
    }.items():
        answer = session.raw("ListGroups", 5, **filters)
        answer["groups"] = [found for found in answer["groups"] if found["group_id"] == group]
        session.keep(f"ListGroups: {name}", session.plain(answer))
    session.step("DeleteGroups", "DeleteGroups", 2, groups_names=[group, session.group("absent")])
    session.raw("LeaveGroup", 3, group_id=group, members=[{"member_id": member, "group_instance_id": None}])
    session.step("DescribeGroups: empty", "DescribeGroups", 6, groups=[group], include_authorized_operations=False)
    session.step("DeleteGroups: empty", "DeleteGroups", 2, groups_names=[group])
    session.step("DescribeGroups: deleted", "DescribeGroups", 5, groups=[group], include_authorized_operations=False)
    session.step("a heartbeat of a deleted group", "Heartbeat", 4, **beat(group, member, generation))


def leaving(session):
    session.wait_for_coordinator()
    group = session.group("left")
    member, _ = stable(session, group)

    def step(name, group, *members):
        session.step(f"LeaveGroup: {name}", "LeaveGroup", 5, group_id=group, members=list(members))

    gone = {"member_id": "nobody", "group_instance_id": None}
    step("unknown member", group, gone)
    step("unknown group", session.group("absent"), gone)
    step("empty group", "", gone)
    step("nobody", group)
    step("two, one unknown", group, gone, {"member_id": member, "group_instance_id": None, "reason": "done"})
    session.step("LeaveGroup 2: unknown member", "LeaveGroup", 2, group_id=group, member_id="nobody")


def static_members(session):
    session.wait_for_coordinator()
    session.create("any")
    group = session.group("static")
    member, generation = stable(session, group, group_instance_id="i")
    session.step("a static member joins again", "JoinGroup", 9, **join(group, group_instance_id="i"))
    session.step("its old id", "Heartbeat", 4, **beat(group, member, generation, "i"))
    session.step("its old id joins", "JoinGroup", 7, **join(group, member_id=member, group_instance_id="i"))
    session.step("its old id syncs", "SyncGroup", 5, **sync(group, member, generation, group_instance_id="i"))
    commit(session, "its old id commits", group, generation, member, "i")
    changed = [{"name": "range", "metadata": b"changed"}]
    fresh = session.step("with other metadata", "JoinGroup", 9, **join(group, group_instance_id="i", protocols=changed))
    session.step("an instance id that is not there", "Heartbeat", 4, **beat(group, fresh["member_id"], 1, "j"))
    unknown = {"member_id": "", "group_instance_id": "j"}
    known = {"member_id": "", "group_instance_id": "i"}
    fenced = {"member_id": member, "group_instance_id": "i"}
    for name, leaver in {"unknown instance": unknown, "fenced": fenced, "by instance": known, "again": known}.items():
        session.step(f"LeaveGroup: {name}", "LeaveGroup", 5, group_id=group, members=[leaver])


def commit(session, name, group, generation, member, instance=None, parts=None, topic=None):
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "group_instance_id": instance,
        "topics": [{"name": topic or session.topic("any"), "partitions": parts or [part()]}],
    }
    return session.step(name, "OffsetCommit", 8, **fields)


def part(partition=0, offset=1, epoch=-1, text=""):
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": text,
    }


def commits(session):
    session.wait_for_coordinator()
    topic = session.create("committed", partitions=2)
    group = session.group("simple")

    def step(name, *parts, generation=-1, member="", group=group, topic=topic):
        commit(session, name, group, generation, member, parts=list(parts), topic=topic)

    step("a simple consumer", part())
    step("with epoch and text", part(epoch=3, text="here"))
    step("null text", part(partition=1, text=None))
    step("text of 4096", part(text="x" * 4096))
    step("text of 4097", part(text="x" * 4097), part(partition=1, offset=2))
    step("beyond the end", part(offset=1000))
    step("negative", part(offset=-5))
    step("unknown partition", part(partition=9), part(partition=1))
    step("unknown topic", part(), topic=session.topic("absent"))
    step("empty topic", part(), topic="")
    step("empty group", part(), group="")
    step("a generation without a member", part(), generation=3)
    step("a member without a generation", part(), member="nobody")
    step("unknown member", part(), generation=1, member="nobody")
    step("unknown group with a member", part(), generation=1, member="nobody", group=session.group("absent"))
    lived = session.group("lived")
    member, generation = stable(session, lived)
    step("a simple consumer in a living group", part(), group=lived)
    step("another generation", part(), group=lived, generation=generation + 1, member=member)
    step("a member", part(text="m"), group=lived, generation=generation, member=member)


def committed(session):
    """A topic of two partitions and a group with an offset in each."""
    session.wait_for_coordinator()
    topic, group = session.create("committed", partitions=2), session.group("simple")
    session.produce(topic, batch([T] * 3))
    parts = [part(epoch=0, text="here"), part(partition=1, offset=2, text=None)]
    commit(session, "committed", group, -1, "", parts=parts, topic=topic)
    return topic, group


def fetches(session):
    topic, group = committed(session)
    known = [{"name": topic, "partition_indexes": [0, 1, 9]}]
    for version in (1, 2, 5, 7):
        fields = {"require_stable": True} if version >= 7 else {}
        session.step(f"version {version}", "OffsetFetch", version, group_id=group, topics=known, **fields)
    absent = session.topic("absent")

    def step(name, group, topics):
        session.step(name, "OffsetFetch", 5, group_id=group, topics=topics)

    step("unknown topic", group, [{"name": absent, "partition_indexes": [0]}])
    step("unknown group", session.group("absent"), known)
    step("unknown group, all", session.group("absent"), None)
    step("empty group", "", known)
    step("no topics", group, [])
    step("all", group, None)
    groups = [{"group_id": group, "topics": known}, {"group_id": session.group("absent"), "topics": None}]
    session.step("version 8: two groups", "OffsetFetch", 8, groups=groups, require_stable=False)
    session.step("version 8: no groups", "OffsetFetch", 8, groups=[], require_stable=False)
    nine = [{**each, "member_id": None, "member_epoch": -1} for each in groups]
    session.step("version 9: two groups", "OffsetFetch", 9, groups=nine, require_stable=False)


def deletes(session):
    topic, group = committed(session)

    def step(name, group, *partitions):
        topics = [{"name": topic, "partitions": [{"partition_index": partition} for partition in partitions]}]
        session.step(name, "OffsetDelete", 0, group_id=group, topics=topics)

    step("one known and one unknown partition", group, 1, 9)
    session.step("what is left", "OffsetFetch", 5, group_id=group, topics=None)
    step("unknown group", session.group("absent"), 0)
    step("empty group", "", 0)
    lived = session.group("lived")
    stable(session, lived)
    step("a living group", lived, 0)
