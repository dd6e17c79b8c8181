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
import { type Clock, sleep } from '@gatehouse/net'
import { makeFolder } from '@gatehouse/service-kit/files'
import { lockFile } from '@gatehouse/service-kit/lock'
import { type Placed, readPair, timeOf, toTime } from './certificate.ts'
import { ClientError } from './errors.ts'
import { requireTrusted } from './trusted-folder.ts'

const KEY = 'privkey.pem'
const CHAIN = 'fullchain.pem'
const COMBINED = 'combined.pem'
const STATE = 'renewal.json'
/** The file that says that the reload command has not succeeded yet for these files. */
const MARK = 'reload-pending'
const LOOK_EVERY = 100

export interface Owner {
  readonly uid: number
  readonly gid: number
}

export interface FolderOptions {
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
 * files or the new ones. All methods throw ClientError CERT_CLIENT_FILES.
 */
export class CertificateFolder {
  readonly path: string
  readonly #options: FolderOptions
  /** The start of all files beside the link. A name holds no `@`. */
  readonly #prefix: string

  constructor(options: FolderOptions) {
    const name = folderName(options.domain)
    this.path = join(options.dir, name)
    this.#prefix = `.${name}@`
    this.#options = options
  }

  /** Makes the folder of all certificates, and refuses what is in the way of the link. */
  prepare(): void {
    const { dir } = this.#options
    attempt(dir, () => {
      requireTrusted(dir)
      makeFolder(resolve(dir), 0o755)
      this.#target()
    })
  }

  /** Reads what is in place, if it is whole. */
  read(): Placed | undefined {
    return attempt(this.path, () => {
      const target = this.#target()
      if (target === undefined) return undefined
      try {
        const read = (file: string) => readFileSync(join(this.#options.dir, target, file), 'utf8')
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
  }

  /** Puts files in the place of the old ones, which stay until {@link tidy}. */
  publish(pair: Placed, { needsReload }: { readonly needsReload: boolean }): void {
    const { dir } = this.#options
    attempt(this.path, () => {
      this.#target()
      const version = mkdtempSync(join(dir, `${this.#prefix}${pair.serialNumber}-`))
      try {
        this.#fill(version, pair, needsReload)
        this.#turnTo(version)
      } catch (error) {
        // Unless the link leads to it already.
        if (this.#target() !== basename(version)) rmSync(version, { recursive: true, force: true })
        throw error
      }
    })
  }

  #fill(version: string, pair: Placed, needsReload: boolean): void {
    const { privateKey, fullChain, renewAt, isOwnKey } = pair
    const state = { ...(renewAt !== undefined && { renewAt: toTime(renewAt) }), isOwnKey }
    this.#write(join(version, KEY), privateKey)
    this.#write(join(version, CHAIN), fullChain)
    this.#write(join(version, COMBINED), privateKey + fullChain)
    this.#write(join(version, STATE), `${JSON.stringify(state)}\n`)
    if (needsReload) this.#write(join(version, MARK), '')
    this.#admit(version)
    withOpen(version, 'r', fsyncSync)
  }

  #turnTo(version: string): void {
    const { dir } = this.#options
    const link = join(dir, `${this.#prefix}link`)
    rmSync(link, { force: true })
    symlinkSync(basename(version), link)
    renameSync(link, this.path)
    withOpen(dir, 'r', fsyncSync)
  }

  /** A new file with the mode and owner that are asked for, on the disk. */
  #write(file: string, text: string): void {
    withOpen(file, 'wx', (descriptor) => {
      writeFileSync(descriptor, text)
      give(descriptor, this.#options.mode, this.#options.owner)
      fsyncSync(descriptor)
    })
  }

  /** Lets whoever may read the files enter their folder, which nobody else may change. */
  #admit(version: string): void {
    const { mode, owner } = this.#options
    const uid = process.geteuid?.() ?? -1
    const isOfOther = owner !== undefined && ![-1, uid].includes(owner.uid)
    const rights = 0o700 | (mode & 0o040 ? 0o050 : 0) | (isOfOther ? 0o011 : 0)
    this.#correct(version, rights, owner && { uid, gid: owner.gid })
  }

  /** Changes what is not as it is asked for, and nothing else: the disk may be read-only by now. */
  #correct(path: string, mode: number, owner: Owner | undefined): void {
    const { uid, gid } = owner ?? { uid: -1, gid: -1 }
    const old = lstatSync(path)
    const isOwned = [-1, old.uid].includes(uid) && [-1, old.gid].includes(gid)
    if (isOwned && (old.mode & 0o7777) === mode) return
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
    withOpen(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, (descriptor) =>
      give(descriptor, mode, owner),
    )
  }

  /** Gives files that are in place the mode and owner that are asked for now. */
  adjust(): void {
    const { mode, dir, owner } = this.#options
    attempt(this.path, () => {
      const target = this.#target()
      // Whatever is missing is fetched anew.
      if (target === undefined || !existsSync(join(dir, target))) return
      this.#admit(join(dir, target))
      for (const name of [KEY, CHAIN, COMBINED, STATE]) {
        const file = join(dir, target, name)
        const stats = lstatSync(file, { throwIfNoEntry: false })
        // A file with two names may be somebody else's.
        if (stats?.isFile() && stats.nlink === 1) this.#correct(file, mode, owner)
      }
    })
  }

  /** Whether the reload command is still to succeed for what is in place. */
  isReloadPending(): boolean {
    return existsSync(join(this.path, MARK))
  }

  reloaded(): void {
    attempt(this.path, () => rmSync(join(this.path, MARK), { force: true }))
  }

  /** Keeps a private key that was made here until there is a certificate for it. */
  keepKey(pem: string): void {
    const file = join(this.#options.dir, `${this.#prefix}key`)
    attempt(file, () => {
      rmSync(`${file}.new`, { force: true })
      this.#write(`${file}.new`, pem)
      renameSync(`${file}.new`, file)
      withOpen(this.#options.dir, 'r', fsyncSync)
    })
  }

  /** Reads the private key that waits for its certificate. */
  keptKey(): string | undefined {
    const file = join(this.#options.dir, `${this.#prefix}key`)
    return attempt(file, () => (existsSync(file) ? readFileSync(file, 'utf8') : undefined))
  }

  /** Whether something lies beside the files that are in place. */
  isUntidy(): boolean {
    return this.#leftovers().length > 0
  }

  /** Removes old files, and what was left by a client that was killed. */
  tidy(): void {
    attempt(this.#options.dir, () => {
      for (const name of this.#leftovers())
        rmSync(join(this.#options.dir, name), { recursive: true, force: true })
    })
  }

  #leftovers(): string[] {
    return attempt(this.#options.dir, () => {
      const current = this.#target()
      const kept = [current, `${this.#prefix}lock`]
      if (this.#options.isOwnKey && !this.#isKeyPlaced()) kept.push(`${this.#prefix}key`)
      return readdirSync(this.#options.dir).filter(
        (name) => name.startsWith(this.#prefix) && !kept.includes(name),
      )
    })
  }

  #isKeyPlaced(): boolean {
    const kept = this.keptKey()
    const file = join(this.path, KEY)
    return kept !== undefined && existsSync(file) && readFileSync(file, 'utf8') === kept
  }

  /** Keeps other clients off this certificate; gives what lets them in again. */
  async lock(patienceMs: number, clock: Clock, signal?: AbortSignal): Promise<() => void> {
    const file = join(this.#options.dir, `${this.#prefix}lock`)
    for (const end = clock.now() + patienceMs; ; await sleep(clock, LOOK_EVERY, signal)) {
      const unlock = attempt(file, () => {
        requireTrusted(this.#options.dir)
        return lockFile(file)
      })
      if (unlock) return unlock
      if (clock.now() >= end)
        throw new ClientError('CERT_CLIENT_LOCKED', `another client works on ${this.path}`, {
          isTransient: true,
        })
    }
  }

  /** The folder that the link leads to; undefined if there is no link yet. */
  #target(): string | undefined {
    requireTrusted(this.#options.dir)
    const stats = lstatSync(this.path, { throwIfNoEntry: false })
    if (!stats) return undefined
    const target = stats.isSymbolicLink() ? readlinkSync(this.path) : undefined
    if (target?.startsWith(this.#prefix) && !target.includes('/')) return target
    throw new ClientError(
      'CERT_CLIENT_FILES',
      `${this.path} is in the way: it is not a link of this program. Move it away, or choose another folder`,
    )
  }
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

function attempt<T>(path: string, step: () => T): T {
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
