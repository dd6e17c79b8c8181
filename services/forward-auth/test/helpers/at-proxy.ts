/** Whatever a program sends to port 443 of any host goes to the proxy. */
const PRELOAD = `import tls from 'node:tls'
const { connect } = tls
const at = { host: '127.0.0.1', port: process.env.PROXY_PORT }
tls.connect = (options, ...rest) => connect(Number(options.port) === 443 ? { ...options, ...at } : options, ...rest)`

/** A proxy that has all hosts, and the file of the CA that it is trusted by. */
export interface ProxyAddress {
  readonly port: number
  readonly caFile: string
}

/** Arguments of a Node program that finds the proxy where it expects hosts; see {@link atProxy}. */
export const AT_PROXY = ['--import', `data:text/javascript,${encodeURIComponent(PRELOAD)}`]

/** The environment of such a program. */
export const atProxy = ({ port, caFile }: ProxyAddress) => ({
  PROXY_PORT: String(port),
  NODE_EXTRA_CA_CERTS: caFile,
})
