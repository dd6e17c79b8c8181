// Hosts of their own on this machine: network namespaces on one bridge, which is in a namespace as well
// because container engines have the machine drop what passes its bridges.
import { command } from './commands.ts'

const PREFIX = 'ghe'
const FIRST_HOST = 10
const SUBNETS = 250

/** A network namespace with an address that all others reach. */
export interface Host {
  readonly name: string
  readonly namespace: string
  readonly address: string
}

interface Link {
  readonly ifname: string
  readonly ifalias?: string
}

const ip = (...args: readonly string[]) => command('ip', args)

/** The bridge, its hosts, and what separates them. Everything is gone with `remove`. */
export class Network {
  /** Of this process, which the hosts reach there. */
  readonly address: string
  readonly range: string
  /** Of the device that leads there, and the beginning of the names of all namespaces. */
  readonly #name: string
  readonly #hub: string
  readonly #subnet: number
  readonly #hosts: Host[] = []

  private constructor(subnet: number) {
    this.#subnet = subnet
    this.#name = `${PREFIX}${subnet}`
    this.#hub = `${this.#name}-hub`
    this.address = `10.213.${subnet}.1`
    this.range = `10.213.${subnet}.0/24`
  }

  /** Takes a subnet that nobody uses, and removes what ended runs have left. */
  static async create(): Promise<Network> {
    const used = new Set<string>()
    for (const { ifname, ifalias = '' } of await devices()) {
      if (isAlive(Number(ifalias))) used.add(ifname)
      else await removeNetwork(ifname)
    }
    for (let subnet = 1; subnet < SUBNETS; subnet++) {
      if (used.has(`${PREFIX}${subnet}`)) continue
      const network = new Network(subnet)
      await network.#open()
      return network
    }
    throw new Error('every subnet is in use')
  }

  async #open(): Promise<void> {
    await ip('netns', 'add', this.#hub)
    await ip('-n', this.#hub, 'link', 'add', 'bridge', 'type', 'bridge')
    await ip('-n', this.#hub, 'link', 'set', 'bridge', 'up')
    await ip('link', 'add', this.#name, 'type', 'veth', 'peer', 'name', 'out', 'netns', this.#hub)
    await ip('link', 'set', this.#name, 'alias', String(process.pid))
    await ip('-n', this.#hub, 'link', 'set', 'out', 'master', 'bridge', 'up')
    await ip('addr', 'add', `${this.address}/24`, 'dev', this.#name)
    await ip('link', 'set', this.#name, 'up')
  }

  async add(name: string): Promise<Host> {
    const number = FIRST_HOST + this.#hosts.length
    const namespace = `${this.#name}-${name}`
    const host = { name, namespace, address: `10.213.${this.#subnet}.${number}` }
    this.#hosts.push(host)
    const port = `port${number}`
    const inHub = (...args: readonly string[]) => ip('-n', this.#hub, 'link', ...args)
    await ip('netns', 'add', namespace)
    await inHub('add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
    await inHub('set', port, 'master', 'bridge', 'up')
    await ip('-n', namespace, 'addr', 'add', `${host.address}/24`, 'dev', 'eth0')
    for (const device of ['lo', 'eth0']) await ip('-n', namespace, 'link', 'set', device, 'up')
    return host
  }

  /** Drops every packet between a host and those others, without a word, until the result is called. */
  async separate(host: Host, others: readonly Host[]): Promise<() => Promise<void>> {
    const rules = others.flatMap(({ address }) => [
      ['OUTPUT', '-d', address, '-j', 'DROP'],
      ['INPUT', '-s', address, '-j', 'DROP'],
    ])
    const change = async (how: '-A' | '-D') => {
      for (const rule of rules)
        await ip('netns', 'exec', host.namespace, 'iptables', '-w', how, ...rule)
    }
    await change('-A')
    return () => change('-D')
  }

  remove = (): Promise<void> => removeNetwork(this.#name)
}

/** Ends all processes of a host at once, as if it lost power. */
export async function killHost({ namespace }: Pick<Host, 'namespace'>): Promise<void> {
  const pids = (await ip('netns', 'pids', namespace)).split('\n').filter(Boolean)
  for (const pid of pids)
    try {
      process.kill(Number(pid), 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
}

async function removeNetwork(network: string): Promise<void> {
  const list = JSON.parse((await ip('-j', 'netns', 'list')) || '[]') as { name: string }[]
  const names = list.map(({ name }) => name).filter((name) => name.startsWith(`${network}-`))
  for (const namespace of names) await killHost({ namespace })
  // The device goes with the hub that it leads to, which may take a moment.
  await ip('link', 'del', network).catch(() => {})
  for (const namespace of names) await ip('netns', 'del', namespace)
}

async function devices(): Promise<readonly Link[]> {
  const links = JSON.parse(await ip('-j', 'link', 'show', 'type', 'veth')) as Link[]
  return links.filter(({ ifname }) => /^ghe\d+$/.test(ifname ?? ''))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
