import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fchownSync,
  fsyncSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Clock, sleep, toTime } from '@gatehouse/net'
import { makeFolder } from '@gatehouse/service-kit/files'
import { lockFile } from '@gatehouse/service-kit/lock'
import { type Placed, readPair, timeOf } from './certificate.ts'
import { type CompanionOptions, companionFiles, hasCompanions, TRUSTSTORE } from './companions.ts'
import { ClientError } from './errors.ts'
import { requireTrusted } from './trusted-folder.ts'

const KEY = 'privkey.pem'
const CHAIN = 'fullchain.pem'
const COMBINED = 'combined.pem'
const COMPANIONS = { roots: 'ca.pem', keystore: 'bundle.p12' }
const STATE = 'renewal.json'
/** The file that says that the reload command has not succeeded yet for these files. */
const MARK = 'reload-pending'
const LOOK_EVERY = 100

export interface Owner {
  readonly uid: number
  readonly gid: number
}

export interface FolderOptions extends CompanionOptions {
  /** The folder of all certificates. */
  readonly dir: string
  /** The first name of the certificate. */
  readonly domain: string
  /** Permissions of the files. Whoever may read them may enter the folder. */
  readonly mode: number
  /** Owner of the files; -1 leaves the user or the group as it is. The folders stay those of this user. */
  readonly owner: Owner | undefined
  /** Whether private keys are made here. */
  readonly isOwnKey: boolean
}

/** The folder for a first name: `_.x` for `*.x`, and `_` for the colons of an IPv6 address. */
export function folderName(domain: string): string {
  return domain.replace(/^\*/, '_').replaceAll(':', '_')
}

/**
 * The folder of one certificate: `DIR/NAME` is a symbolic link to `DIR/.NAME@…`, a folder that is
 * written whole before the link is turned to it. A program that is killed at any moment leaves the old
 * files or the new ones. All functions throw ClientError CERT_CLIENT_FILES.
 */
export function certificateFolder(options: FolderOptions) {
  const { dir, domain, mode, owner, isOwnKey } = options
  const name = folderName(domain)
  const path = join(dir, name)
  /** The start of all files beside the link. A name holds no `@`. */
  const prefix = `.${name}@`
  const keyFile = join(dir, `${prefix}key`)

  /** The folder that the link leads to; undefined if there is no link yet. */
  function targetOf(): string | undefined {
    requireTrusted(dir)
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (!stats) return undefined
    const target = stats.isSymbolicLink() ? readlinkSync(path) : undefined
    if (target?.startsWith(prefix) && !target.includes('/')) return target
    throw new ClientError(
      'CERT_CLIENT_FILES',
      `${path} is in the way: it is not a link of this program. Move it away, or choose another folder`,
    )
  }

  function fill(version: string, pair: Placed, needsReload: boolean): void {
    const { privateKey, fullChain, renewAt } = pair
    const times = renewAt === undefined ? {} : { renewAt: toTime(renewAt) }
    write(join(version, KEY), privateKey)
    write(join(version, CHAIN), fullChain)
    write(join(version, COMBINED), privateKey + fullChain)
    write(join(version, STATE), `${JSON.stringify({ ...times, isOwnKey: pair.isOwnKey })}\n`)
    for (const [file, content] of companionFiles(pair, COMPANIONS, options))
      write(join(version, file), content)
    if (needsReload) write(join(version, MARK), '')
    admit(version)
    withOpen(version, 'r', fsyncSync)
  }

  function turnTo(version: string): void {
    const link = join(dir, `${prefix}link`)
    rmSync(link, { force: true })
    symlinkSync(basename(version), link)
    renameSync(link, path)
    withOpen(dir, 'r', fsyncSync)
  }

  /** A new file with the mode and owner that are asked for, on the disk. */
  function write(file: string, content: string | Buffer): void {
    withOpen(file, 'wx', (descriptor) => {
      writeFileSync(descriptor, content)
      give(descriptor, mode, owner)
      fsyncSync(descriptor)
    })
  }

  /** Lets whoever may read the files enter their folder, which nobody else may change. */
  function admit(version: string): void {
    const uid = process.geteuid?.() ?? -1
    const isOfOther = owner !== undefined && ![-1, uid].includes(owner.uid)
    const rights = 0o700 | (mode & 0o040 ? 0o050 : 0) | (isOfOther ? 0o011 : 0)
    correct(version, rights, owner && { uid, gid: owner.gid })
  }

  function leftovers(): string[] {
    return attempt(dir, () => {
      const kept = [targetOf(), `${prefix}lock`]
      if (isOwnKey && !isKeyPlaced()) kept.push(`${prefix}key`)
      return readdirSync(dir).filter((file) => file.startsWith(prefix) && !kept.includes(file))
    })
  }

  function isKeyPlaced(): boolean {
    const kept = keptKey()
    const file = join(path, KEY)
    return kept !== undefined && existsSync(file) && readFileSync(file, 'utf8') === kept
  }

  function keptKey(): string | undefined {
    return attempt(keyFile, () => (existsSync(keyFile) ? readFileSync(keyFile, 'utf8') : undefined))
  }

  return {
    path,
    keptKey,
    /** Makes the folder of all certificates, and refuses what is in the way of the link. */
    prepare(): void {
      attempt(dir, () => {
        requireTrusted(dir)
        makeFolder(resolve(dir), 0o755)
        targetOf()
      })
    },
    /** Reads what is in place, if it is whole. */
    read(): Placed | undefined {
      return attempt(path, () => {
        const target = targetOf()
        if (target === undefined) return undefined
        try {
          const read = (file: string) => readFileSync(join(dir, target, file), 'utf8')
          const key = read(KEY)
          const chain = read(CHAIN)
          if (read(COMBINED) !== key + chain) return undefined
          const { renewAt, isOwnKey } = JSON.parse(read(STATE))
          return { ...readPair(chain, key), renewAt: timeOf(renewAt), isOwnKey: isOwnKey === true }
        } catch {
          // Files that somebody deleted or changed are fetched anew.
          return undefined
        }
      })
    },
    /** Whether what is in place has the other files that are asked for, with the password and the roots of now. */
    hasCompanions(placed: Placed): boolean {
      const readIfPresent = (name: string) => {
        const file = join(path, name)
        return existsSync(file) ? readFileSync(file) : undefined
      }
      return attempt(path, () => hasCompanions(placed, COMPANIONS, options, readIfPresent))
    },
    /** Puts files in the place of the old ones, which stay until `tidy`. */
    publish(pair: Placed, { needsReload }: { readonly needsReload: boolean }): void {
      attempt(path, () => {
        targetOf()
        const version = mkdtempSync(join(dir, `${prefix}${pair.serialNumber}-`))
        try {
          fill(version, pair, needsReload)
          turnTo(version)
        } catch (error) {
          // Unless the link leads to it already.
          if (targetOf() !== basename(version)) rmSync(version, { recursive: true, force: true })
          throw error
        }
      })
    },
    /** Gives files that are in place the mode and owner that are asked for now. */
    adjust(): void {
      attempt(path, () => {
        const target = targetOf()
        // Whatever is missing is fetched anew.
        if (target === undefined || !existsSync(join(dir, target))) return
        admit(join(dir, target))
        for (const name of [
          KEY,
          CHAIN,
          COMBINED,
          ...Object.values(COMPANIONS),
          TRUSTSTORE,
          STATE,
        ]) {
          const file = join(dir, target, name)
          const stats = lstatSync(file, { throwIfNoEntry: false })
          // A file with two names may be somebody else's.
          if (stats?.isFile() && stats.nlink === 1) correct(file, mode, owner)
        }
      })
    },
    /** Whether the reload command is still to succeed for what is in place. */
    isReloadPending: () => existsSync(join(path, MARK)),
    reloaded(): void {
      attempt(path, () => rmSync(join(path, MARK), { force: true }))
    },
    /** Keeps a private key that was made here until there is a certificate for it. */
    keepKey(pem: string): void {
      attempt(keyFile, () => {
        rmSync(`${keyFile}.new`, { force: true })
        write(`${keyFile}.new`, pem)
        renameSync(`${keyFile}.new`, keyFile)
        withOpen(dir, 'r', fsyncSync)
      })
    },
    /** Whether something lies beside the files that are in place. */
    isUntidy: () => leftovers().length > 0,
    /** Removes old files, and what was left by a client that was killed. */
    tidy(): void {
      attempt(dir, () => {
        for (const file of leftovers()) rmSync(join(dir, file), { recursive: true, force: true })
      })
    },
    /** Keeps other clients off this certificate; gives what lets them in again. */
    async lock(patienceMs: number, clock: Clock, signal?: AbortSignal): Promise<() => void> {
      const file = join(dir, `${prefix}lock`)
      for (const end = clock.now() + patienceMs; ; await sleep(clock, LOOK_EVERY, signal)) {
        const unlock = attempt(file, () => {
          requireTrusted(dir)
          return lockFile(file)
        })
        if (unlock) return unlock
        const message = `another client works on ${path}`
        if (clock.now() >= end)
          throw new ClientError('CERT_CLIENT_LOCKED', message, { isTransient: true })
      }
    },
  }
}
export type CertificateFolder = ReturnType<typeof certificateFolder>

/** Changes what is not as it is asked for, and nothing else: the disk may be read-only by now. */
function correct(path: string, mode: number, owner: Owner | undefined): void {
  const { uid, gid } = owner ?? { uid: -1, gid: -1 }
  const old = lstatSync(path)
  const isOwned = [-1, old.uid].includes(uid) && [-1, old.gid].includes(gid)
  if (isOwned && (old.mode & 0o7777) === mode) return
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  withOpen(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, (descriptor) => give(descriptor, mode, owner))
}

function give(descriptor: number, mode: number, owner: Owner | undefined): void {
  if (owner) fchownSync(descriptor, owner.uid, owner.gid)
  fchmodSync(descriptor, mode)
}

function withOpen(path: string, flags: string | number, step: (descriptor: number) => void): void {
  const descriptor = openSync(path, flags, 0o600)
  try {
    step(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Does something with files. @throws ClientError CERT_CLIENT_FILES */
export function attempt<T>(path: string, step: () => T): T {
  try {
    return step()
  } catch (cause) {
    if (cause instanceof ClientError) throw cause
    const {
      code = (cause as Error).message,
      path: file = path,
      syscall = 'use',
    } = cause as NodeJS.ErrnoException
    throw new ClientError('CERT_CLIENT_FILES', `cannot ${syscall} ${file} (${code})`, { cause })
  }
}
