"""Consumer groups of the newer protocol (KIP-848): heartbeats that join, stay, leave; epochs; static members."""

import uuid

from scenarios.groups import join, part

TRIES = 100


def heartbeat(group, member, epoch, topics=None, **more):
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": topics}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
    return fields | more


def name():
    return str(uuid.uuid4())


def settled(session, group, member, epoch, topics):
    """Heartbeats until the member is told of partitions: its epoch and the answer that told it."""
    fields = heartbeat(group, member, epoch, topics)
    for _ in range(TRIES):
        answer = session.raw("ConsumerGroupHeartbeat", 1, **fields)
        assert answer["error_code"] == 0, answer
        if answer["assignment"] and answer["assignment"]["topic_partitions"]:
            return answer["member_epoch"], answer
        fields = heartbeat(group, member, answer["member_epoch"])
    raise AssertionError("the member gets no partitions")


def owned(answer):
    return answer["assignment"]["topic_partitions"]


def requests(session):
    session.wait_for_coordinator()
    topic, group = session.create("read", partitions=2), session.group("asked")

    def step(label, version=1, **more):
        fields = heartbeat(group, name(), 0, [topic]) | more
        session.step(label, "ConsumerGroupHeartbeat", version, **fields)

    step("empty group", group_id="")
    step("empty member", member_id="")
    step("no rebalance timeout", rebalance_timeout_ms=-1)
    step("no subscription", subscribed_topic_names=None)
    step("partitions while joining", topic_partitions=[{"topic_id": session.topic_id("read"), "partitions": [0]}])
    step("no list of partitions while joining", topic_partitions=None)
    step("unknown assignor", server_assignor="nobody")
    step("empty assignor", server_assignor="")
    step("empty rack", rack_id="")
    step("empty instance", instance_id="")
    step("a regular expression that is none", subscribed_topic_regex="[", subscribed_topic_names=None)
    step("epoch -3", member_epoch=-3)
    step("epoch -2 without an instance", member_epoch=-2)
    step("unknown group", member_epoch=4, group_id=session.group("absent"))
    step("leaves an unknown group", member_epoch=-1, group_id=session.group("absent"))
    session.step(
        "describe", "ConsumerGroupDescribe", 1, group_ids=[session.group("absent")], include_authorized_operations=False
    )


def life(session):
    session.wait_for_coordinator()
    topic, group = session.create("read", partitions=2), session.group("lives")
    first, second = name(), name()
    epoch, answer = settled(session, group, first, 0, [topic])
    session.keep("the first is told", session.plain(answer))
    mine = {"topic_partitions": owned(answer)}

    def step(label, member, epoch, **more):
        return session.step(label, "ConsumerGroupHeartbeat", 1, **heartbeat(group, member, epoch, **more))

    step("a heartbeat that says what it has", first, epoch, **mine)
    step("a heartbeat that says nothing", first, epoch)
    step("unknown member", name(), epoch)
    step("a newer epoch", first, epoch + 1)
    step("an epoch long gone", first, epoch - 1 if epoch > 1 else 7)
    offsets(session, topic, group, first, epoch)
    describe(session, "while one is in it", group)
    old = {**join(session.group("lives")), "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\0\0\0\0"}]}
    session.keep("a member of the older protocol", {"error_code": session.raw("JoinGroup", 7, **old)["error_code"]})
    two(session, topic, group, first, second, epoch)
    step("the second leaves", second, -1)
    step("the second again", second, 1)
    step("the first leaves", first, -1)
    describe(session, "when all have left", group)
    session.step("is deleted", "DeleteGroups", 2, groups_names=[group])


def two(session, topic, group, first, second, epoch):
    """A second member joins: it gets one partition, after the first has given it up."""
    joined = session.raw("ConsumerGroupHeartbeat", 1, **heartbeat(group, second, 0, [topic]))
    assigned = joined["assignment"] and joined["assignment"]["topic_partitions"]
    session.keep("the second joins", {"error_code": joined["error_code"], "partitions": assigned})
    told = session.raw("ConsumerGroupHeartbeat", 1, **heartbeat(group, first, epoch))
    left = owned(told)
    session.keep("the first is told to give one up", [len(each["partitions"]) for each in left])
    waits = session.raw("ConsumerGroupHeartbeat", 1, **heartbeat(group, second, joined["member_epoch"]))
    session.keep("the second waits", session.plain(waits["assignment"]))
    gave = session.raw(
        "ConsumerGroupHeartbeat", 1, **heartbeat(group, first, told["member_epoch"], topic_partitions=left)
    )
    session.keep("the first has given it up", {"error_code": gave["error_code"], "newer": gave["member_epoch"] > epoch})
    _, gets = settled(session, group, second, joined["member_epoch"], None)
    both = sorted(number for answer in (left, owned(gets)) for each in answer for number in each["partitions"])
    session.keep("who has what", both)


def offsets(session, topic, group, member, epoch):
    def commit(label, member, epoch):
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "group_instance_id": None,
        }
        session.step(label, "OffsetCommit", 9, **fields, topics=[{"name": topic, "partitions": [part()]}])

    def fetch(label, member, epoch):
        wanted = [{"name": topic, "partition_indexes": [0]}]
        groups = [{"group_id": group, "member_id": member, "member_epoch": epoch, "topics": wanted}]
        session.step(label, "OffsetFetch", 9, groups=groups, require_stable=False)

    commit("a commit", member, epoch)
    commit("a commit with an older epoch", member, epoch - 1)
    commit("a commit with a newer epoch", member, epoch + 1)
    commit("a commit of an unknown member", "nobody", epoch)
    commit("a commit without a member", "", -1)
    fetch("offsets", member, epoch)
    fetch("offsets with a newer epoch", member, epoch + 1)
    fetch("offsets of an unknown member", "nobody", epoch)
    fetch("offsets without a member", None, -1)


def describe(session, label, group):
    answer = session.raw("ConsumerGroupDescribe", 1, group_ids=[group], include_authorized_operations=False)
    for each in answer["groups"]:
        # How many steps were needed is up to the server.
        each["group_epoch"] = each["assignment_epoch"] = "<epoch>"
        for member in each["members"]:
            member["member_epoch"] = "<epoch>"
    session.keep(f"ConsumerGroupDescribe: {label}", session.plain(answer))
    groups = session.raw("ListGroups", 5, states_filter=[], types_filter=["consumer"])["groups"]
    session.keep(f"ListGroups: {label}", session.plain([each for each in groups if each["group_id"] == group]))
    session.step(f"DescribeGroups: {label}", "DescribeGroups", 5, groups=[group], include_authorized_operations=False)


def static_members(session):
    session.wait_for_coordinator()
    topic, group = session.create("read"), session.group("static")
    first, second = name(), name()
    fields = heartbeat(group, first, 0, [topic], instance_id="i")
    answer = session.raw("ConsumerGroupHeartbeat", 1, **fields)
    epoch = answer["member_epoch"]

    def step(label, member, epoch, topics=None, **more):
        fields = heartbeat(group, member, epoch, topics, **{"instance_id": "i"} | more)
        return session.step(label, "ConsumerGroupHeartbeat", 1, **fields)

    step("another with the same instance", second, 0, [topic])
    step("stays", first, epoch)
    step("goes for a while", first, -2)
    step("another takes its place", second, 0, [topic])
    step("the first comes back with its epoch", first, epoch)
    step("the second leaves for good", second, -1)
