import * as accounts from './accounts.ts'
import { readAuthorization, validate } from './authorizations.ts'
import { type Account, type Books, idsOf, newId, refuse } from './books.ts'
import * as orders from './orders.ts'
import { type Exchange, type Kind, problem, Refusal, type Reply } from './protocol.ts'

type Handler = (books: Books, exchange: Exchange, account: Account) => Reply | Promise<Reply>

const HANDLERS = new Map<Kind, Handler>([
  ['account', accounts.changeAccount],
  ['keyChange', accounts.changeKey],
  ['newOrder', orders.newOrder],
  ['order', orders.readOrder],
  ['authorization', readAuthorization],
  ['challenge', validate],
  ['finalize', orders.finalize],
  ['certificate', orders.readCertificate],
])

/** The answer of a CA by the rules of RFC 8555. */
export async function answer(books: Books, exchange: Exchange): Promise<Reply> {
  try {
    return await decide(books, exchange)
  } catch (error) {
    const { status, type, message } =
      error instanceof Refusal ? error : new Refusal(500, 'serverInternal', String(error))
    return { status, body: problem(type, message) }
  }
}

function decide(books: Books, exchange: Exchange): Reply | Promise<Reply> {
  const { kind, path } = exchange
  if (kind === 'directory') return directory(books)
  if (kind === 'renewalInfo') return renewalInfo(books, exchange)
  if (path.startsWith('/v') && !path.startsWith(`/v${books.version}/`)) refuse(404, 'malformed')
  if (kind === 'newNonce') return { body: '' }
  const account = accounts.authenticate(books, exchange)
  if (kind === 'newAccount') return accounts.newAccount(books, exchange)
  if (kind === 'revokeCert') return orders.revoke(books, exchange, account)
  const handler = HANDLERS.get(kind) ?? refuse(404, 'malformed')
  return handler(books, exchange, account ?? refuse(403, 'unauthorized'))
}

const VERSIONED = ['newNonce', 'newAccount', 'newOrder', 'revokeCert', 'keyChange'] as const

function directory({ origin, version, options }: Books): Reply {
  const { termsOfService, profiles, externalAccount, renewalWindow } = options
  const urls = VERSIONED.map((kind) => [kind, `${origin}/v${version}/${kind}`])
  return {
    body: {
      ...Object.fromEntries(urls),
      ...(renewalWindow && { renewalInfo: `${origin}/renewalInfo` }),
      meta: { termsOfService, profiles, externalAccountRequired: Boolean(externalAccount) },
      [newId()]: 'an unknown member',
    },
  }
}

function renewalInfo({ options }: Books, exchange: Exchange): Reply {
  const [id = ''] = idsOf(exchange)
  const { explanationURL, ...suggestedWindow } =
    options.renewalWindow?.(id) ?? refuse(404, 'malformed')
  const body = { suggestedWindow, ...(explanationURL && { explanationURL }) }
  return { headers: { 'retry-after': '21600' }, body }
}

/** The resource at a path: its first part, or the second below a version. */
export function kindOf(path: string): Kind {
  const [, first = '', second = ''] = path.split('/')
  return (/^v\d/.test(first) ? second : first) as Kind
}
