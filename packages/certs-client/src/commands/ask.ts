import { escaped, hintAt, printable } from '@gatehouse/service-kit/program'
import { clientClock } from '../clock.ts'
import { CLIENT_ERRORS, ClientError } from '../errors.ts'
import { openService } from '../open.ts'
import type { ActionFor, CertService } from '../service.ts'
import {
  type ConnectionOptions,
  type OptionValues,
  readConnection,
  readName,
  readProfile,
  type Texts,
} from '../settings.ts'

/** The options of these commands, each of which some of them have. */
export interface CommandOptions
  extends ConnectionOptions,
    OptionValues<'json' | 'failing' | 'pem' | 'wait' | 'dryRun' | 'renew' | 'now', boolean>,
    OptionValues<'noCross' | 'force' | 'forgetKey' | 'end' | 'yes', boolean>,
    OptionValues<'keep' | 'account', readonly string[]>,
    Texts<'reason' | 'caller' | 'spread' | 'adopt' | 'profile' | 'ending'>,
    Texts<'root' | 'rootKey' | 'signerKey'>,
    Texts<'issuer' | 'under' | 'keyType' | 'before'> {}

export interface Io {
  readonly env: NodeJS.ProcessEnv
  readonly stderr: { write(text: string): unknown }
  readonly actionFor: ActionFor
  /** Has the command end with exit code 1, after what it prints. */
  readonly fail?: () => void
}

/** A command that asks the service about what its words name. Throws UsageError and ClientError. */
export type ClientCommand = (
  words: readonly string[],
  options: CommandOptions,
  io: Io,
) => AsyncGenerator<string>

/** Asks about one name or ID, `''` if the command line has none: for the answer as JSON has it, and as people read it. */
type SubjectStep = (
  subject: string,
  service: CertService,
  options: CommandOptions,
  io: Io,
) => Promise<{ readonly value: object; readonly text: string }>

/** Opens the API, with warnings on standard error. @throws UsageError */
export function open(
  options: CommandOptions,
  { env, stderr, actionFor }: Io,
): CertService & AsyncDisposable {
  const warn = (fields: object, message: string) =>
    stderr.write(escaped(`warning: ${Object.values(fields).join(' ')}: ${message}\n`))
  const profile = readProfile(options.profile)
  const context = { clock: clientClock, log: { warn }, actionFor, profile }
  return openService(readConnection(options, env), context)
}

/** Takes a step for each word: what the service refuses about one is said at the end, and the others are done. */
export const forEach = (step: SubjectStep): ClientCommand =>
  async function* (words, options, io) {
    await using service = open(options, io)
    const failures: ClientError[] = []
    for (const subject of words.length > 0 ? words : [''])
      try {
        const { value, text } = await step(subject, service, options, io)
        yield options.json ? `${JSON.stringify(value)}\n` : text
      } catch (error) {
        // What the client itself meets, such as a service that is away, the others would meet, too.
        const isOfSubject =
          error instanceof ClientError && !Object.hasOwn(CLIENT_ERRORS, error.code)
        if (words.length < 2 || !isOfSubject) throw error
        failures.push(new ClientError(error.code, `${printable(subject)}: ${error.message}`, error))
      }
    if (failures.length > 0) throw new AggregateError(failures)
  }

/** Takes a step for each name. One that nobody has is refused with the nearest. */
export const forEachName = (step: SubjectStep): ClientCommand => {
  const question = forEach((name, service, options, io) =>
    step(name, service, options, io).catch(async (error) =>
      Promise.reject(await withNearest(name, service, error)),
    ),
  )
  return (texts, options, io) => {
    const profile = readProfile(options.profile)
    const names = new Set(texts.map((text) => readName(text, profile).text))
    return question([...names], options, io)
  }
}

const NOT_FOUND = ['CERT_NOT_FOUND', 'CERT_ORDER_NOT_FOUND']
/** The names that are looked through for the one that was probably meant. */
const MAX_NAMES = 10_000

/** Adds the nearest name that the caller may see. */
async function withNearest(name: string, service: CertService, error: unknown): Promise<unknown> {
  if (!(name && error instanceof ClientError && NOT_FOUND.includes(error.code))) return error
  const names: string[] = []
  for await (const certificate of service.list())
    if (names.push(...certificate.names) > MAX_NAMES) break
  return new ClientError(error.code, `${error.message}${hintAt(name, names)}`, error)
}
