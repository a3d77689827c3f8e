package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// monitor asks what kminion and Redpanda Console ask, of a topic with records and a group that has read 15 of them.
func monitor(ctx context.Context, bootstrap, topic, group string) error {
	made, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer made.Close()
	admin := kadm.NewClient(made)
	for _, step := range []func(context.Context, *kadm.Client, string, string) error{lag, sizes, settings, reassignment} {
		if err := step(ctx, admin, topic, group); err != nil {
			return err
		}
	}
	return served(ctx, made)
}

func lag(ctx context.Context, admin *kadm.Client, topic, group string) error {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	described, err := admin.DescribeGroups(ctx, listed.Groups()...)
	if err != nil || described[group].State != "Empty" {
		return fmt.Errorf("the group is %q, %v", described[group].State, err)
	}
	committed := admin.FetchManyOffsets(ctx, listed.Groups()...)
	if err := committed.Error(); err != nil {
		return err
	}
	start, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	end, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	first, _ := start.Lookup(topic, 0)
	last, _ := end.Lookup(topic, 0)
	at, _ := committed[group].Fetched.Lookup(topic, 0)
	if first.Offset != 0 || last.Offset < records || at.At != records {
		return fmt.Errorf("the offsets are %d, %d and %d", first.Offset, last.Offset, at.At)
	}
	return nil
}

func sizes(ctx context.Context, admin *kadm.Client, topic, _ string) error {
	described, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return err
	}
	for _, directories := range described {
		if found, there := directories.LookupPartition(topic, 0); there && found.Size > 0 {
			return directories.Error()
		}
	}
	return fmt.Errorf("no directory has a size for %s", topic)
}

func settings(ctx context.Context, admin *kadm.Client, topic, _ string) error {
	brokers, err := admin.ListBrokers(ctx)
	if err != nil || len(brokers) != 1 {
		return fmt.Errorf("there are %d brokers, %v", len(brokers), err)
	}
	if _, err := admin.DescribeBrokerConfigs(ctx, brokers[0].NodeID); err != nil {
		return err
	}
	described, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	_, err = described.On(topic, nil)
	return err
}

// reassignment is what kminion does to its topic for measurements: each partition to the broker that it is at.
func reassignment(ctx context.Context, admin *kadm.Client, topic, _ string) error {
	var request kadm.AlterPartitionAssignmentsReq
	request.Assign(topic, 0, []int32{0})
	altered, err := admin.AlterPartitionAssignments(ctx, request)
	if err != nil {
		return err
	}
	if err := altered.Error(); err != nil {
		return err
	}
	_, err = admin.ListPartitionReassignments(ctx, nil)
	return err
}

// served holds the versions against those that Redpanda Console looks for before it shows a feature.
func served(ctx context.Context, made *kgo.Client) error {
	versions, err := kadm.NewClient(made).ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, broker := range versions {
		for _, request := range []kmsg.Request{
			&kmsg.DescribeConfigsRequest{}, &kmsg.DescribeGroupsRequest{}, &kmsg.ListGroupsRequest{}, &kmsg.DeleteRecordsRequest{},
			&kmsg.OffsetCommitRequest{}, &kmsg.DeleteGroupsRequest{}, &kmsg.OffsetDeleteRequest{},
			&kmsg.ListPartitionReassignmentsRequest{}, &kmsg.IncrementalAlterConfigsRequest{},
			&kmsg.AlterPartitionAssignmentsRequest{}, &kmsg.DescribeClientQuotasRequest{},
			&kmsg.DescribeUserSCRAMCredentialsRequest{}, &kmsg.AlterUserSCRAMCredentialsRequest{},
		} {
			if _, _, there := broker.KeyVersions(request.Key()); !there {
				return fmt.Errorf("%s is not served", kmsg.NameForKey(request.Key()))
			}
		}
	}
	return nil
}

// monitored makes a topic and a group for monitor.
func monitored(ctx context.Context, bootstrap string) error {
	topic := fmt.Sprintf("go-monitored-%d", time.Now().UnixNano())
	made := newFranz(bootstrap)
	if err := made.createTopic(ctx, topic); err != nil {
		return err
	}
	if err := made.produce(ctx, topic); err != nil {
		return err
	}
	if _, err := made.consume(ctx, topic, topic, records); err != nil {
		return err
	}
	return monitor(ctx, bootstrap, topic, topic)
}
