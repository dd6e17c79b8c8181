/** Hosts whose issuers give a token to anyone who creates an account. */
const PUBLIC_HOSTS: ReadonlySet<string> = new Set([
  'accounts.google.com',
  'api.login.yahoo.com',
  'appleid.apple.com',
  'gitlab.com',
  'id.twitch.tv',
  'slack.com',
  'www.facebook.com',
  'www.linkedin.com',
])

/** Issuers of jobs that anyone can run. Below their hosts there may be issuers of one company. */
const PUBLIC_ISSUERS: ReadonlySet<string> = new Set([
  'https://agent.buildkite.com',
  'https://app.terraform.io',
  'https://oauth2.sigstore.dev/auth',
  'https://oidc.codefresh.io',
  'https://token.actions.githubusercontent.com',
])

/** Tenants of Microsoft that are open to all; the last one is that of personal accounts. */
const MICROSOFT_FOR_ALL =
  /^https:\/\/login\.microsoftonline\.com\/(common|organizations|consumers|9188040d-6c67-4c5b-b112-36a304b66dad)(\/v2\.0)?$/

/**
 * Whether an issuer gives a token to anyone who creates an account there, such as Google or GitHub Actions.
 * A token of such an issuer says who the caller is, and not that you know the caller.
 */
export function isPublicIssuer(issuerUrl: string): boolean {
  const { href = issuerUrl, hostname = '' } = URL.parse(issuerUrl) ?? {}
  const url = href.replace(/(?<!\/)\/+$/, '')
  return PUBLIC_HOSTS.has(hostname) || PUBLIC_ISSUERS.has(url) || MICROSOFT_FOR_ALL.test(url)
}
