/** A cookie jar and what follows redirects: as much of a browser as a login needs. */
export function createBrowser() {
  const jar = new Map<string, string>()

  async function open(url: URL | string): Promise<{ url: URL; location: URL | undefined }> {
    const here = new URL(url)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(here, { redirect: 'manual', headers: { cookie } })
    await answer.arrayBuffer()
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      const separator = pair.indexOf('=')
      const [name, value] = [pair.slice(0, separator), pair.slice(separator + 1)]
      if (value === '') jar.delete(name)
      else jar.set(name, value)
    }
    const location = answer.headers.get('location')
    return { url: here, location: location === null ? undefined : new URL(location, here) }
  }

  /** Follows redirects at the provider until one leads away from it, and gives where that leads. */
  async function signIn(authorizationUrl: URL | string, loginHint?: string): Promise<URL> {
    let next = new URL(authorizationUrl)
    const { origin } = next
    if (loginHint !== undefined) next.searchParams.set('login_hint', loginHint)
    for (let steps = 0; steps < 10; steps++) {
      const { url, location } = await open(next)
      if (!location) throw new Error(`${url} leads nowhere`)
      if (location.origin !== origin) return location
      next = location
    }
    throw new Error('too many redirects')
  }

  return { open, signIn }
}
