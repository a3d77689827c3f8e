"""The check of the order, with traces in a right and in wrong orders."""

import unittest

from order import Violation, check, marker

DATA = "/data"
WAL = "/data/shards/0/wal/00000000000000000001/00000000000000000000"
SOCKET = "socket:[7]"
SEGMENT_ID = "0000000000000000000000001Z"
SEGMENT_BYTES = r"\0" * 15 + "?"


def call(text, result="0", thread=1):
    return f"{thread} {text} = {result}"


def staged(number, text, length=100):
    return call(rf'write(9</data/.tmp/{number}>, "{text}", {length})', length)


def synced(path):
    return call(f"fsync(9<{path}>)")


def linked(number, target):
    return call(rf'linkat(AT_FDCWD</>, "/data/.tmp/{number}", AT_FDCWD</>, "{target}", 0)')


def put(number, target, text):
    """An object's four calls."""
    directory = target.rsplit("/", 1)[0]
    return [staged(number, text), synced(f"/data/.tmp/{number}"), linked(number, target), synced(directory)]


def requested(number):
    return call(rf'recvfrom(5<{SOCKET}>, "\0\0\0\7\0\0\0{chr(65 + number)}.. {marker(number)}", 60, 0, NULL, NULL)', 60)


def acknowledged(number):
    first = rf'{{iov_base="\0\0\0\61\0\0\0{chr(65 + number)}", iov_len=8}}'
    return call(rf'writev(5<{SOCKET}>, [{first}, {{iov_base="..", iov_len=45}}], 2)', 53)


def wal(seq):
    return f"{WAL}/{seq:020}"


def produced(number):
    return [requested(number), *put(number, wal(number + 1), f"index {marker(number)}"), acknowledged(number)]


SEGMENT = put(50, f"/data/shards/0/data/{SEGMENT_ID}.seg", "blocks")
INSTALL = put(51, wal(9), f"names {SEGMENT_BYTES} here")
CHECKPOINT = put(52, "/data/shards/0/checkpoints/00000000000000000001-00000000000000000009", "state")
DELETION = [call(f'unlink("{wal(1)}")')]


class Order(unittest.TestCase):
    def refused(self, lines, reason, markers=1):
        with self.assertRaisesRegex(Violation, reason):
            check(lines, DATA, markers)

    def test_the_right_order_is_taken(self):
        lines = [*produced(0), *produced(1), *SEGMENT, *INSTALL, *CHECKPOINT, *DELETION]
        shown = check(lines, DATA, 2)
        self.assertEqual((shown["objects of the WAL"], shown["segments"]), (3, 1))
        self.assertEqual((shown["references to segments and pages"], shown["deleted objects of the WAL"]), (1, 1))

    def test_each_call_of_a_put_is_needed_and_in_its_place(self):
        received, write, sync, link, sync_directory, answer = produced(0)
        for lines, reason in [
            ([received, write, link, sync_directory, answer], "before its bytes were synced"),
            ([received, write, link, sync, sync_directory, answer], "before its bytes were synced"),
            ([received, sync, write, link, sync_directory, answer], "before its bytes were synced"),
            ([received, write, sync, link, write, sync_directory, answer], "written after it got its name"),
            ([received, sync, link, sync_directory, answer], "nothing was written"),
            ([received, write, sync, link, answer], "was not synced"),
            ([received, write, sync, sync_directory, link, answer], "was not synced"),
            ([received, write, sync, link, answer, sync_directory], "acknowledged before"),
            ([received, answer, write, sync, link, sync_directory], "acknowledged before"),
        ]:
            self.refused(lines, reason)

    def test_a_write_in_pieces_is_synced_after_the_last_one(self):
        received, write, sync, link, sync_directory, answer = produced(0)
        more = staged(0, "more")
        check([received, write, sync, more, sync, link, sync_directory, answer], DATA, 1)
        self.refused([received, write, sync, more, link, sync_directory, answer], "before its bytes were synced")

    def test_a_sync_counts_from_its_end_and_only_when_it_began_after(self):
        received, write, _, link, sync_directory, answer = produced(0)
        begin, end = "2 fsync(9</data/.tmp/0> <unfinished ...>", "2 <... fsync resumed>) = 0"
        check([received, write, begin, end, link, sync_directory, answer], DATA, 1)
        self.refused([received, write, begin, link, end, sync_directory, answer], "before its bytes were synced")
        self.refused([received, begin, write, end, link, sync_directory, answer], "before its bytes were synced")

    def test_a_failed_sync_is_never_right(self):
        received, write, sync, link, sync_directory, answer = produced(0)
        failed = call("fsync(9</data/.tmp/0>)", "-1 EIO (Input/output error)")
        self.refused([received, write, failed, sync, link, sync_directory, answer], "fsync failed")

    def test_a_later_object_is_not_acknowledged_before_an_earlier_one(self):
        first, second = produced(0), produced(1)
        check([*first[:3], *second[:5], *first[3:], second[5]], DATA, 2)
        self.refused([*first[:3], *second, *first[3:]], "acknowledged before .*0001 was durable", 2)

    def test_a_directory_that_was_made_is_synced_in_its_parent(self):
        made, parent = call(f'mkdir("{WAL}", 0777)'), WAL.rsplit("/", 1)[0]
        received, write, sync, link, sync_directory, answer = produced(0)
        front = [received, write, sync]
        check([*front, made, synced(parent), link, sync_directory, answer], DATA, 1)
        self.refused([*front, made, link, sync_directory, answer], "was not synced")
        self.refused([*front, made, link, sync_directory, answer, synced(parent)], "acknowledged before")

    def test_nothing_names_a_segment_before_it_is_durable(self):
        self.refused([*produced(0), *SEGMENT[:3], *INSTALL, SEGMENT[3]], "names shards/0/data/.* before")

    def test_nothing_is_deleted_before_a_checkpoint_is_durable(self):
        self.refused([*produced(0), *DELETION, *CHECKPOINT], "deleted before a checkpoint")
        self.refused([*produced(0), *CHECKPOINT[:3], *DELETION, CHECKPOINT[3]], "deleted before a checkpoint")

    def test_a_trace_without_the_records_shows_nothing(self):
        self.refused(produced(0), "no produce request", 2)
        self.refused(produced(0)[:-1], "no response")
        self.refused([requested(0), acknowledged(0)], "in no object of the WAL")


if __name__ == "__main__":
    unittest.main()
