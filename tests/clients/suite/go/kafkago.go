package main

import (
	"context"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

type kafkaGoClient struct{ bootstrap string }

func newKafkaGo(bootstrap string) client { return &kafkaGoClient{bootstrap: bootstrap} }

func (c *kafkaGoClient) client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(c.bootstrap), Timeout: bound}
}

func (c *kafkaGoClient) createTopic(ctx context.Context, topic string) error {
	wanted := kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}
	answer, err := c.client().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *kafkaGoClient) produce(ctx context.Context, topic string) error {
	for half, codec := range []kafka.Compression{0, kafka.Zstd} {
		writer := kafka.Writer{
			Addr:         kafka.TCP(c.bootstrap),
			Topic:        topic,
			RequiredAcks: kafka.RequireAll,
			Compression:  codec,
			BatchTimeout: time.Millisecond,
		}
		var messages []kafka.Message
		for step := half * records / 2; step < (half+1)*records/2; step++ {
			messages = append(messages, kafka.Message{
				Key:   []byte(fmt.Sprintf("k%d", step)),
				Value: []byte(fmt.Sprintf("v%d", step)),
				Time:  time.UnixMilli(firstTime + int64(step)),
			})
		}
		if err := writer.WriteMessages(ctx, messages...); err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (c *kafkaGoClient) produceSnappy(ctx context.Context, topic string, values []string) error {
	writer := kafka.Writer{
		Addr:         kafka.TCP(c.bootstrap),
		Topic:        topic,
		RequiredAcks: kafka.RequireAll,
		Compression:  kafka.Snappy,
		BatchTimeout: time.Millisecond,
	}
	for _, value := range values {
		if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(value)}); err != nil {
			return err
		}
	}
	return writer.Close()
}

func (c *kafkaGoClient) consume(ctx context.Context, topic, group string, count int) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{c.bootstrap},
		GroupID:     group,
		Topic:       topic,
		MaxWait:     100 * time.Millisecond,
		StartOffset: kafka.FirstOffset,
	})
	defer reader.Close()
	var values []string
	for len(values) < count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			return nil, err
		}
		values = append(values, string(message.Value))
		if len(values) == count {
			if err := reader.CommitMessages(ctx, message); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

func (c *kafkaGoClient) offsetAt(ctx context.Context, topic string, millis int64) (int64, error) {
	wanted := []kafka.OffsetRequest{kafka.TimeOffsetOf(0, time.UnixMilli(millis))}
	answer, err := c.client().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: wanted}})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[topic][0]
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return -1, found.Error
}

func (*kafkaGoClient) transact(context.Context, string) error { return errNotThere }
