import t from 'tap'
import { createMovedClock, end, FAKETIME, type Person } from '../helpers/moved-clock.ts'

const skip = FAKETIME ? false : 'faketime is not installed'

for (const offset of ['+2d', '-2h'])
  t.test(
    `a clock that was wrong by ${offset} and is right again brings nobody back and signs nobody out`,
    { skip },
    async (t) => {
      const { start, setClock, signIn, signOut, check } = await createMovedClock(t)
      setClock('+0')
      let { child, url = '' } = await start()
      const person = async () => (await signIn(url)) as Person
      const [ada, bob] = [await person(), await person()]
      t.equal(await check(url, ada), 200)
      t.equal(await signOut(url, bob), 200)
      t.equal(await check(url, bob), 401)

      setClock(offset)
      t.equal(await check(url, bob), 401)
      const carol = await person()
      t.equal(await check(url, carol), 200, 'people can sign in')
      t.equal(await signOut(url, carol), 200, 'and out')
      await end(child, 'SIGTERM')
      ;({ child, url = '' } = await start())
      const dave = await person()
      t.equal(await signOut(url, dave), 200, 'after a start, too')
      for (const ended of [bob, carol, dave]) t.equal(await check(url, ended), 401)

      for (const when of ['at once', 'after a restart']) {
        setClock('+0')
        t.equal(await check(url, ada), 200, `${when}: who was signed in is so again`)
        for (const ended of [bob, carol, dave]) t.equal(await check(url, ended), 401, when)
        const eve = await person()
        t.equal(await check(url, eve), 200, `${when}: people can sign in`)
        setClock(offset)
        for (const ended of [carol, dave])
          t.equal(await check(url, ended), 401, `${when}: also by the wrong clock`)
        setClock('+0')
        await end(child, 'SIGTERM')
        ;({ child, url = '' } = await start())
      }
      await end(child, 'SIGTERM')
    },
  )
