import type { IncomingMessage } from 'node:http'
import type { Test } from 'tap'
import { authorizationServer, type Grant, type RegisteredClient } from './authorization-server.ts'
import { startServer } from './server.ts'

const people: Readonly<Record<string, { id: number; login: string; name: string | null }>> = {
  alice: { id: 583231, login: 'alice', name: 'Alice Arden' },
  // Somebody else who has registered the login name that alice has given up.
  newcomer: { id: 999999, login: 'alice', name: null },
}

const organizations = [{ login: 'ACME' }, { login: 'admin' }, ...pad((i) => ({ login: `o${i}` }))]
const teams = [
  ...pad((i) => ({ slug: `t${i}`, organization: { login: 'other' } })),
  { slug: 'ops', organization: { login: 'ACME' } },
  { slug: 'acme', organization: { login: 'admin' } },
]

/** As many entries as one page has. */
function pad<T>(make: (index: number) => T): T[] {
  return Array.from({ length: 100 }, (_, index) => make(index))
}

/** GitHub as an enterprise server: `url`, with the API below `/api/v3`. */
export async function startGithub(t: Test, client?: RegisteredClient) {
  const emails = [
    { email: 'old@acme.example', primary: false, verified: true, visibility: null },
    { email: 'alice@acme.example', primary: true, verified: true, visibility: 'private' },
  ]
  const state = { emails, organizations }

  /** What api.github.com refuses is refused here. */
  function api(give: (grant: Grant, url: URL) => unknown, scope?: string) {
    return (grant: Grant | undefined, { headers }: IncomingMessage, url: URL) => {
      if (!headers['user-agent'])
        return { status: 403, json: 'Request forbidden by administrative rules.' }
      if (!grant) return { status: 401, json: { message: 'Bad credentials' } }
      if (scope && !grant.scopes.includes(scope))
        return { status: 404, json: { message: 'Not Found' } }
      return { json: give(grant, url) }
    }
  }
  const page = (all: readonly unknown[], { searchParams }: URL) => {
    const size = Math.min(100, Number(searchParams.get('per_page') ?? 30))
    const first = (Number(searchParams.get('page') ?? 1) - 1) * size
    return all.slice(first, first + size)
  }

  const { origin, stop, restart } = await startServer(t, () =>
    authorizationServer({
      ...(client && { client }),
      paths: { authorize: '/login/oauth/authorize', token: '/login/oauth/access_token' },
      authentication: ['post'],
      refusal: { status: 200, error: 'bad_verification_code' },
      tokens: ({ scopes }) => ({ scope: scopes.join(',') }),
      resources: {
        '/api/v3/user': api(({ person }) => ({
          ...people[person],
          avatar_url: `https://avatars.githubusercontent.com/u/${people[person]?.id}`,
          email: 'public@elsewhere.example',
          type: 'User',
        })),
        '/api/v3/user/emails': api(() => state.emails, 'user:email'),
        '/api/v3/user/orgs': api((_grant, url) => page(state.organizations, url), 'read:org'),
        '/api/v3/user/teams': api((_grant, url) => page(teams, url), 'read:org'),
      },
    }),
  )
  return {
    url: origin,
    state,
    stop,
    restart,
    /** Where github.com is. */
    origins: { 'https://github.com': origin, 'https://api.github.com': `${origin}/api/v3` },
  }
}
