import { lstatSync, readlinkSync, type Stats } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import { ClientError } from './errors.ts'

const MAX_LINKS = 40

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
    requireOwn(folder, stats, { user, isLast: name === undefined })
    if (name === undefined) return
    // No link is on the way to it, so that `..` is what the system takes it for.
    const next = resolve(folder, name)
    const found = lstatSync(next, { throwIfNoEntry: false })
    if (!found) return
    if (!found.isSymbolicLink()) folder = next
    else if (isShared(stats) || ++links > MAX_LINKS)
      throw refused(`${next} is a link that other users may have made`, 'Name the folder itself.')
    else {
      const target = readlinkSync(next)
      ahead.unshift(...target.split('/'))
      if (isAbsolute(target)) folder = '/'
    }
  }
}

/** In a folder with the sticky bit, such as `/tmp`, nobody can replace what belongs to somebody else. */
function requireOwn(
  folder: string,
  stats: Stats,
  { user, isLast }: { readonly user: number; readonly isLast: boolean },
): void {
  const { uid, mode } = stats
  const who = user === 0 ? 'only root may' : 'nobody but you and root may'
  const other = `choose a folder that ${who} change.`
  if (uid !== 0 && uid !== user)
    throw refused(
      `${folder} belongs to user ${uid}, who may change what is in it`,
      user === 0 ? `Run the client as that user, or ${other}` : `C${other.slice(1)}`,
    )
  if (isShared(stats) && (isLast || (mode & 0o1000) === 0))
    throw refused(
      `other users may change what is in ${folder} (mode ${(mode & 0o7777).toString(8)})`,
      `Run \`chmod go-w ${folder}\`, or ${other}`,
    )
}

/** An access control list that lets somebody write shows as a right of the group. */
const isShared = ({ mode }: Stats) => (mode & 0o022) !== 0

function refused(why: string, action: string): ClientError {
  return new ClientError('CERT_CLIENT_FILES', why, { action })
}
