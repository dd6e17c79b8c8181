import { pageUrl } from '../sites.ts'
import type { Realm } from '../web/realm.ts'
import { createClient } from './client.ts'
import type { Finding } from './diagnose.ts'

/**
 * Asks each provider, as a browser without cookies, whether it would send people back after a sign-out: it
 * answers 400 where the URI is not registered. Nothing secret is sent.
 */
export async function examineSignOut(realm: Realm): Promise<readonly Finding[]> {
  const ask = createClient({ insecure: true })
  const uri = pageUrl(realm, '/logout')
  const findings = [...realm.portal.providers.values()].map(
    async (provider): Promise<Finding[]> => {
      if (provider.type !== 'redirect') return []
      const url = await provider.logoutUrl(uri).catch(() => undefined)
      const answer =
        url && (await ask(url, { headers: { accept: 'text/html' } }).catch(() => undefined))
      if (answer?.status !== 400) return []
      const text = `${provider.title} does not let people come back after signing out (400): register ${uri} there.`
      return [{ mistake: 'sign-out', text }]
    },
  )
  return (await Promise.all(findings)).flat()
}
