// PostgreSQL in two places with automatic failover: etcd, and a patroni beside each server.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { installedPostgres } from '../test/dump.ts'
import { command, until } from './commands.ts'
import { type Host, killHost, type Network } from './network.ts'
import { Program } from './program.ts'

/** Undefined where PostgreSQL is not installed. */
export const POSTGRES_BIN = installedPostgres(['initdb', 'postgres', 'pg_rewind', 'psql'])
const USER = 'postgres'
const PASSWORD = 'only-of-this-run'
const REST_PORT = 8008
/** Longer than the lease of the leader, so that the other one takes over. */
const NODE_DOWN = 14_000
const ETCD_PORT = 2379

interface Node {
  readonly host: Host
  readonly folder: string
  readonly patroni: Program
}

export interface Cluster {
  readonly nodes: readonly Node[]
  /** For `storage.url`. */
  readonly url: string
  leader(): Promise<Node | undefined>
  /** The one that has everything that was acknowledged, so that it may take over. */
  standby(): Promise<Node | undefined>
  /** Makes the one that does not lead anew from the leader, as its operator does when it cannot follow. */
  remakeStandby(): Promise<void>
  /** Hands over to the other one in order; false if that one is not ready. */
  switchOver(): Promise<boolean>
  /** Takes the power off the leader until the other one has taken over; false if that one is not ready. */
  killLeader(): Promise<boolean>
  /** SIGKILL for a server alone, which its patroni starts again; false if there was none. */
  killServer(node: Node): Promise<boolean>
  /** Rows of the leader, as JSON. */
  rows<Row>(sql: string): Promise<readonly Row[]>
  stop(): Promise<void>
}

/** Starts it; resolves when the standby confirms what the primary commits. */
export async function startCluster(network: Network, folder: string): Promise<Cluster> {
  const etcd = await startEtcd(network, folder)
  const hosts = [await network.add('db-1'), await network.add('db-2')]
  const nodes = await Promise.all(hosts.map((host) => startNode(host, network, etcd.host, folder)))
  const cluster = new PatroniCluster(nodes, etcd)
  await until('a database that takes writes', () => cluster.leader(), 120_000)
  await cluster.prepare()
  return cluster
}

class PatroniCluster implements Cluster {
  readonly nodes: readonly Node[]
  readonly url: string
  readonly #etcd: Program

  constructor(nodes: readonly Node[], etcd: Program) {
    this.nodes = nodes
    this.#etcd = etcd
    const hosts = nodes.map(({ host }) => `${host.address}:5432`).join(',')
    this.url = `postgres://gatehouse:${PASSWORD}@${hosts}/gatehouse?sslmode=disable`
  }

  async prepare(): Promise<void> {
    await this.#sql('postgres', `CREATE ROLE gatehouse LOGIN PASSWORD '${PASSWORD}'`)
    await this.#sql('postgres', 'CREATE DATABASE gatehouse OWNER gatehouse')
    await until('a standby in step', async () => (await this.standby()) && true)
  }

  async standby(): Promise<Node | undefined> {
    const isInStep = await Promise.all(this.nodes.map((node) => answers(node, '/sync')))
    return this.nodes.find((_, n) => isInStep[n])
  }

  async leader(): Promise<Node | undefined> {
    const isLeader = await Promise.all(this.nodes.map((node) => answers(node, '/primary')))
    return this.nodes.find((_, n) => isLeader[n])
  }

  async remakeStandby(): Promise<void> {
    const leader = await this.leader()
    if (!leader) return
    const body = JSON.stringify({ force: true })
    for (const { host } of this.nodes.filter((node) => node !== leader))
      await fetch(`${restUrl(host)}/reinitialize`, { method: 'POST', body })
  }

  async switchOver(): Promise<boolean> {
    const [leader, candidate] = await Promise.all([this.leader(), this.standby()])
    if (!leader || !candidate) return false
    const body = JSON.stringify({ leader: leader.host.name, candidate: candidate.host.name })
    const answer = await fetch(`${restUrl(leader.host)}/switchover`, { method: 'POST', body })
    return answer.status === 200
  }

  async killLeader(): Promise<boolean> {
    const [leader, candidate] = await Promise.all([this.leader(), this.standby()])
    if (!leader || !candidate) return false
    await leader.patroni.end()
    await killHost(leader.host)
    await sleep(NODE_DOWN)
    leader.patroni.start()
    return true
  }

  async killServer(node: Node): Promise<boolean> {
    try {
      const [pid] = readFileSync(join(node.folder, 'data/postmaster.pid'), 'utf8').split('\n')
      process.kill(Number(pid), 'SIGKILL')
      return true
    } catch {
      // It is being started or rewound.
      return false
    }
  }

  async rows<Row>(sql: string): Promise<readonly Row[]> {
    const text = await this.#sql('gatehouse', `SELECT row_to_json(one) FROM (${sql}) one`)
    return text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Row)
  }

  async stop(): Promise<void> {
    for (const { patroni, host } of this.nodes) {
      await patroni.end()
      await killHost(host)
    }
    await this.#etcd.end()
  }

  async #sql(database: string, sql: string): Promise<string> {
    const leader = await until('a primary', () => this.leader())
    const options = ['-h', leader.host.address, '-U', USER, '-d', database, '-AtqX']
    const psql = join(POSTGRES_BIN ?? '', 'psql')
    return command(psql, [...options, '-v', 'ON_ERROR_STOP=1', '-c', sql], { PGPASSWORD: PASSWORD })
  }
}

async function answers({ host }: Node, path: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(1_000)
    const { status, body } = await fetch(restUrl(host) + path, { signal })
    await body?.cancel()
    return status === 200
  } catch {
    return false
  }
}

const restUrl = ({ address }: Host) => `http://${address}:${REST_PORT}`

async function startEtcd(network: Network, base: string): Promise<Program> {
  const host = await network.add('etcd')
  const folder = join(base, host.name)
  mkdirSync(folder)
  const clients = `http://${host.address}:${ETCD_PORT}`
  const peers = `http://${host.address}:2380`
  const etcd = new Program({
    host,
    logFile: join(base, 'etcd.log'),
    command: [
      ...['etcd', '--data-dir', folder, '--name', 'only', '--initial-cluster', `only=${peers}`],
      ...['--listen-client-urls', clients, '--advertise-client-urls', clients],
      ...['--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers],
    ],
  })
  etcd.start()
  await until('etcd', async () => (await fetch(`${clients}/health`)).ok || undefined)
  return etcd
}

async function startNode(host: Host, network: Network, etcd: Host, base: string): Promise<Node> {
  const folder = join(base, host.name)
  const file = join(folder, 'patroni.json')
  mkdirSync(folder, { mode: 0o755 })
  writeFileSync(file, JSON.stringify(settings(host, network, etcd, folder)))
  await command('chown', [`${USER}:`, folder])
  const patroni = new Program({
    host,
    user: USER,
    // YAML is a superset of JSON.
    command: ['/usr/bin/python3', '/usr/bin/patroni', file],
    logFile: join(base, `${host.name}.log`),
  })
  patroni.start()
  return { host, folder, patroni }
}

function settings(host: Host, { range }: Network, etcd: Host, folder: string): object {
  const { name, address } = host
  const account = (username: string) => ({ username, password: PASSWORD })
  return {
    ...{ scope: 'gatehouse', name },
    restapi: { listen: `${address}:${REST_PORT}`, connect_address: `${address}:${REST_PORT}` },
    etcd3: { host: `${etcd.address}:${ETCD_PORT}` },
    bootstrap: {
      dcs: {
        ...{ ttl: 10, loop_wait: 2, retry_timeout: 3 },
        // What was acknowledged survives a failover.
        synchronous_mode: true,
        postgresql: { use_pg_rewind: true, use_slots: true, parameters: PARAMETERS },
      },
      initdb: [{ encoding: 'UTF8' }, 'data-checksums'],
    },
    postgresql: {
      ...{ listen: `${address}:5432`, connect_address: `${address}:5432` },
      ...{ data_dir: join(folder, 'data'), bin_dir: POSTGRES_BIN, pgpass: join(folder, 'pgpass') },
      authentication: { superuser: account(USER), replication: account('replicator') },
      parameters: { unix_socket_directories: folder },
      pg_hba: [
        'local all all trust',
        `host all all ${range} scram-sha-256`,
        `host replication replicator ${range} scram-sha-256`,
      ],
    },
  }
}

const PARAMETERS = {
  max_connections: 200,
  shared_buffers: '64MB',
  synchronous_commit: 'on',
  wal_log_hints: 'on',
  wal_keep_size: '256MB',
  log_min_messages: 'warning',
}
