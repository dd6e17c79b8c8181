import { once } from 'node:events'
import { connect, isIP, type Socket } from 'node:net'
import { createTransport } from 'nodemailer'
import { type ReceiverOf, smtpTlsOf } from './config.ts'
import { type EventHead, type EventText, paragraphsOf } from './text.ts'

const TIMEOUT = 30_000
const MAX_SUBJECT = 200

type EmailConfig = ReceiverOf<'email'> & {
  /** The name of the service that sends it. */
  readonly service: string
  readonly ca: string | undefined
}

/**
 * Sends an event over SMTP. An event that is sent twice has the same `Message-ID`.
 *
 * @throws Error if the server did not accept it; what the server says is not part of the message, as
 * it may repeat the password
 */
export async function sendEmail(
  event: EventHead,
  text: EventText,
  config: EmailConfig,
  closing: AbortSignal,
): Promise<void> {
  const { host, port } = config
  const socket = connect({ host, port })
  const deadline = AbortSignal.timeout(TIMEOUT)
  const signal = AbortSignal.any([closing, deadline])
  const abort = () => void socket.destroy()
  signal.addEventListener('abort', abort)
  // Otherwise an error between two of its listeners would end the process.
  socket.on('error', () => {})
  try {
    await once(socket, 'connect', { signal })
    await createTransport(transportOf(socket, config)).sendMail(emailOf(event, text, config))
  } catch (error) {
    const reason = deadline.aborted ? 'it took too long' : reasonOf(error)
    throw new Error(`SMTP ${host}:${port}: ${reason}`)
  } finally {
    signal.removeEventListener('abort', abort)
    socket.destroy()
  }
}

function transportOf(socket: Socket, { host, port, user, password, ca, ...config }: EmailConfig) {
  const tls = smtpTlsOf({ ...config, port })
  return {
    connection: socket,
    host,
    port,
    secure: tls === 'implicit',
    ...(tls === 'starttls' && { requireTLS: true }),
    ...(tls === 'off' && { ignoreTLS: true }),
    tls: { ...(isIP(host) === 0 && { servername: host }), ...(ca !== undefined && { ca }) },
    ...(user !== undefined && password !== undefined && { auth: { user, pass: password } }),
    greetingTimeout: TIMEOUT,
    socketTimeout: TIMEOUT,
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

function emailOf(
  { id, at: time, type }: EventHead,
  text: EventText,
  { service, from, to }: EmailConfig,
) {
  return {
    from: { name: `Gatehouse ${service}`, address: from },
    to: [...to],
    subject: text.title.slice(0, MAX_SUBJECT),
    text: `${[...paragraphsOf(text), `Event ${id} (${type})`].join('\n\n')}\n`,
    date: new Date(time),
    messageId: `<${id}@${from.slice(from.indexOf('@') + 1)}>`,
    // RFC 3834: nobody is to answer with an absence note.
    headers: { 'Auto-Submitted': 'auto-generated' },
  }
}

/** The status of SMTP and the command it answers, or the code of the connection's error. */
function reasonOf(error: unknown): string {
  const { code, command, responseCode } = error as {
    readonly code?: string
    readonly command?: string
    readonly responseCode?: number
  }
  if (responseCode !== undefined) return `${command} was answered ${responseCode}`
  return code ?? (error as Error).name
}
