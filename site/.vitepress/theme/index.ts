import type { Theme } from 'vitepress'
import { useData, withBase } from 'vitepress'
import DefaultTheme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import './style.css'

/** Below each page: the same as Markdown. */
const AsMarkdown = {
  setup() {
    const { page } = useData()
    return () =>
      h('p', { class: 'as-markdown' }, [
        h(
          'a',
          { href: withBase(`/${page.value.relativePath}`), target: '_self' },
          'This page as Markdown',
        ),
      ])
  },
}

const NotFound = () =>
  h('main', { class: 'not-found' }, [
    h('h1', 'There is no such page'),
    h('p', ['Search for it, or look at ', h('a', { href: withBase('/docs/') }, 'all pages'), '.']),
  ])

export default {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      // Shown where scripts, and with them the menu, are off.
      'layout-top': () => h('a', { class: 'to-pages', href: '#pages' }, 'All pages'),
      'sidebar-nav-before': () => h('span', { id: 'pages' }),
      'not-found': () => h(NotFound),
      'doc-footer-before': () => h(AsMarkdown),
    }),
} satisfies Theme
