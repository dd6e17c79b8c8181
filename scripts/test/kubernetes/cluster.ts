import { type ChildProcess, type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { openSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from '../../free-ports.ts'
import { createTestCa } from '../certificates.ts'
import { until } from '../until.ts'

/** Folder of what `scripts/kubernetes.sh` has built. */
const TOOLS = process.env.KUBERNETES_TOOLS ?? ''

/** An API server with etcd and the controllers, without machines: pods are made, and stay pending. */
export interface Cluster {
  /** Of the API server, and of the tokens of its service accounts. */
  readonly url: string
  readonly port: number
  /** PEM of the root that its certificate leads to. */
  readonly root: string
  kubectl(args: readonly string[], input?: string): SpawnSyncReturns<string>
  helm(args: readonly string[], input?: string): SpawnSyncReturns<string>
}

/** Starts a cluster in a folder. After the test nothing runs of it. */
export async function startCluster(t: Test, folder: string): Promise<Cluster> {
  const [port = 0, client = 0, peer = 0, manager = 0] = await freePorts(4)
  const url = `https://localhost:${port}`
  const { root } = writeCredentials(folder, await createTestCa(), url)
  const start = (program: string, flags: Readonly<Record<string, string | number>>) =>
    startProgram(t, folder, program, flags)
  const etcd = `http://127.0.0.1:${client}`
  start('etcd', {
    ...{ 'data-dir': join(folder, 'etcd'), 'log-level': 'error' },
    ...{ 'listen-client-urls': etcd, 'advertise-client-urls': etcd },
    'listen-peer-urls': `http://127.0.0.1:${peer}`,
  })
  const server = start(join(TOOLS, 'kube-apiserver'), {
    'etcd-servers': etcd,
    ...{ 'bind-address': '127.0.0.1', 'secure-port': port },
    // Both, since the address is one of loopback.
    ...{ 'advertise-address': '127.0.0.1', 'endpoint-reconciler-type': 'none' },
    'tls-cert-file': join(folder, 'server.pem'),
    'tls-private-key-file': join(folder, 'server.key'),
    'token-auth-file': join(folder, 'tokens.csv'),
    'authorization-mode': 'RBAC',
    'service-account-issuer': url,
    'service-account-key-file': join(folder, 'accounts.pub'),
    'service-account-signing-key-file': join(folder, 'accounts.key'),
    'service-cluster-ip-range': '10.96.0.0/16',
  })
  await until(() => isReady(port, root, server))
  start(join(TOOLS, 'kube-controller-manager'), {
    kubeconfig: join(folder, 'kubeconfig'),
    ...{ 'leader-elect': 'false', 'bind-address': '127.0.0.1', 'secure-port': manager },
    'service-account-private-key-file': join(folder, 'accounts.key'),
    'root-ca-file': join(folder, 'root.pem'),
    'use-service-account-credentials': 'true',
    // So that nobody waits for the next look.
    'horizontal-pod-autoscaler-sync-period': '1s',
  })
  const env = {
    ...process.env,
    KUBECONFIG: join(folder, 'kubeconfig'),
    HOME: folder,
    // `kubectl diff` starts it, and its exit code is the answer.
    KUBECTL_EXTERNAL_DIFF: 'diff -u -N',
  }
  const run = (program: string) => (args: readonly string[], input?: string) =>
    spawnSync(program, args, { env, encoding: 'utf8', input, maxBuffer: 1e8 })
  return { url, port, root, kubectl: run(join(TOOLS, 'kubectl')), helm: run(helmProgram()) }
}

const helmProgram = () => process.env.HELM ?? join(TOOLS, 'helm/helm')

/** Folder of definitions of extensions. */
export const definitionsFolder = () => process.env.CRDS ?? join(TOOLS, 'helm/crds')

function writeCredentials(
  folder: string,
  { root, certificateFor }: Awaited<ReturnType<typeof createTestCa>>,
  url: string,
): { readonly root: string } {
  const write = (file: string, text: string | Buffer) =>
    writeFileSync(join(folder, file), text, { mode: 0o600 })
  const { cert, key } = certificateFor('localhost', '127.0.0.1')
  write('root.pem', root)
  write('server.pem', cert)
  write('server.key', key)
  const accounts = generateKeyPairSync('rsa', { modulusLength: 2048 })
  write('accounts.key', accounts.privateKey.export({ type: 'pkcs8', format: 'pem' }))
  write('accounts.pub', accounts.publicKey.export({ type: 'spki', format: 'pem' }))
  const token = randomBytes(32).toString('hex')
  write('tokens.csv', `${token},admin,admin,system:masters\n`)
  // JSON is YAML.
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
    clusters: [
      { name: 'test', cluster: { server: url, 'certificate-authority': join(folder, 'root.pem') } },
    ],
    users: [{ name: 'test', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  }
  write('kubeconfig', JSON.stringify(config))
  return { root }
}

function startProgram(
  t: Test,
  folder: string,
  program: string,
  flags: Readonly<Record<string, string | number>>,
): ChildProcess {
  const log = openSync(join(folder, `${program.split('/').at(-1)}.log`), 'w')
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
  // It ends with this process, even where that is killed.
  const bound = ['--pdeathsig', 'KILL', program, ...args]
  const child = spawn('setpriv', bound, { cwd: folder, stdio: ['ignore', log, log] })
  child.on('error', () => {})
  t.teardown(async () => {
    if (child.exitCode !== null || child.pid === undefined) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  })
  return child
}

function isReady(port: number, ca: string, server: ChildProcess): Promise<boolean> {
  if (server.exitCode !== null) throw new Error(`kube-apiserver ended with ${server.exitCode}`)
  return new Promise((resolve) => {
    request({ host: 'localhost', port, path: '/readyz', ca }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
      .on('error', () => resolve(false))
      .end()
  })
}
