// kafkajs with right, wrong and no credentials: PLAIN_PORT TLS_PORT CERTIFICATE_PORT DIRECTORY. Prints one line per check
// and ends with 1 if one failed.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import library from 'kafkajs'

const BOUND_MILLISECONDS = 60_000
const [plain, tls, certificate, directory] = process.argv.slice(2)
const ca = [readFileSync(`${directory}/ca.pem`)]
let failed = false

async function check(name, body) {
  try {
    await body()
    console.log(`passed\tkafkajs ${name}`)
  } catch (error) {
    failed = true
    console.log(`failed\tkafkajs ${name}\t${String(error.message ?? error).split('\n')[0]}`)
  }
}

function client(broker, more) {
  return new library.Kafka({
    clientId: 'check',
    brokers: [broker],
    logLevel: library.logLevel.NOTHING,
    retry: { retries: 1 },
    // It renews a session this long before its end: by default 10 s, which is more than the server's sessions last.
    reauthenticationThreshold: 2_000,
    ...more,
  })
}

const sasl = (mechanism, password) => ({ sasl: { mechanism, username: 'admin', password } })

async function roundTrip(kafka) {
  const topic = `kafkajs-${randomUUID()}`
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  await admin.disconnect()
  const expected = Array.from({ length: 10 }, (_, step) => `v${step}`)
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: expected.map(value => ({ value })) })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${found.length} of 10 records came`)), BOUND_MILLISECONDS).unref()
    const eachMessage = async ({ message }) => {
      found.push(message.value.toString())
      if (found.length === 10) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  assert.deepEqual(found, expected)
}

async function refused(kafka, pattern) {
  const admin = kafka.admin()
  try {
    await admin.connect()
    await admin.listTopics()
  } catch (error) {
    assert.match(String(error.message), pattern)
    return
  } finally {
    await admin.disconnect().catch(() => {})
  }
  assert.fail('it was let in')
}

for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512']) {
  await check(mechanism, () => roundTrip(client(plain, sasl(mechanism, 'pencil'))))
  await check(`${mechanism} over TLS`, () => roundTrip(client(tls, { ...sasl(mechanism, 'pencil'), ssl: { ca } })))
  await check(`${mechanism} with a wrong password`, () =>
    refused(client(plain, sasl(mechanism, 'pen')), /SASL|invalid user name or password/i))
}
const identity = { key: readFileSync(`${directory}/client.key`), cert: readFileSync(`${directory}/client.pem`) }
await check('certificate', () => roundTrip(client(certificate, { ssl: { ca, ...identity } })))
await check('no certificate', () => refused(client(certificate, { ssl: { ca } }), /./))
await check('no credentials', () => refused(client(plain, {}), /./))
process.exit(failed ? 1 : 0)
