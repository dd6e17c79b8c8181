import { existsSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { DnsProviderConfig } from '@gatehouse/acme'
import { applyToEach, checkText, checkTokenFile, type Fault } from '@gatehouse/service-kit'
import type { ChallengeConfig } from './issuers.ts'

/** What is wrong with the files that the DNS providers of a challenge read, or run, when they are used. */
export function checkProviderFiles(challenge: ChallengeConfig): Fault[] {
  if (challenge.type !== 'dns-01') return []
  return applyToEach(challenge.providers, '/providers', [checkFiles])
}

function checkFiles(provider: DnsProviderConfig): Fault[] {
  if (provider.type === 'azure' && provider.tokenPath !== undefined)
    return checkTokenFile('/tokenPath', provider.tokenPath)
  if (provider.type === 'acmesh') return checkScript(provider)
  if (provider.type === 'exec') return checkProgram(provider.command[0] ?? '')
  return []
}

function checkScript({
  path,
  script,
}: {
  readonly path: string
  readonly script: string
}): Fault[] {
  if (!existsSync(join(path, 'acme.sh')))
    return [{ path: '/path', message: `names a folder without acme.sh: ${path}`, absent: true }]
  return checkText('/script', join(path, 'dnsapi', `${script}.sh`), () => {})
}

/** Only whether it is there, as another user runs it. One without a path is looked up at each use. */
function checkProgram(file: string): Fault[] {
  if (!isAbsolute(file)) return []
  const path = '/command/0'
  try {
    const isFolder = statSync(file).isDirectory()
    return isFolder ? [{ path, message: `names a program that is a folder: ${file}` }] : []
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    const message = `names a program that does not exist: ${file}`
    return code === 'ENOENT' || code === 'ENOTDIR' ? [{ path, message, absent: true }] : []
  }
}
