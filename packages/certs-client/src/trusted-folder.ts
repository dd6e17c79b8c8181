import { lstatSync, readlinkSync, type Stats } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { ClientError } from './errors.ts'

/**
 * Refuses a folder that somebody else than root and this user may change, or replace by way of a folder above it: they
 * could lead what is done there to the files of others. What nobody else can change stays as it was looked at.
 * What does not exist yet is not refused.
 *
 * @throws ClientError CERT_CLIENT_FILES, NodeJS.ErrnoException
 */
export function requireTrusted(path: string): void {
  const user = process.geteuid?.()
  if (user === undefined) return
  const ahead = resolve(path).split('/')
  for (let folder = '/', links = 0; ; ) {
    const stats = lstatSync(folder)
    const name = ahead.shift()
    requireOwn(folder, stats, user, name === undefined)
    if (name === undefined) return
    // No link is on the way to it, so that `..` is what the system takes it for.
    const next = resolve(folder, name)
    const entry = lstatSync(next, { throwIfNoEntry: false })
    if (!entry) return
    if (!entry.isSymbolicLink()) folder = next
    else if (isShared(stats) || ++links > 40)
      throw refused(`${next} is a link that other users may have made`, 'Name the folder itself.')
    else {
      const target = readlinkSync(next)
      ahead.unshift(...target.split('/'))
      if (isAbsolute(target)) folder = '/'
    }
  }
}

/** Refuses folders that others may change. In one with the sticky bit, nobody can replace the files of others. */
function requireOwn(folder: string, { uid, mode }: Stats, user: number, isLast: boolean): void {
  const advice = `Choose a folder that only ${user === 0 ? 'root' : 'you and root'} may change`
  if (uid !== 0 && uid !== user)
    throw refused(`${folder} belongs to user ${uid}`, `${advice}, or run the client as that user.`)
  if (!isShared({ mode }) || (!isLast && mode & 0o1000)) return
  const why = `other users may change ${folder} (mode ${(mode & 0o7777).toString(8)})`
  throw refused(why, `${advice}, or run \`chmod go-w ${folder}\`.`)
}

/** An access control list that lets somebody write shows as a right of the group. */
const isShared = ({ mode }: Pick<Stats, 'mode'>) => (mode & 0o022) !== 0

function refused(why: string, action: string): ClientError {
  return new ClientError('CERT_CLIENT_FILES', why, { action })
}
