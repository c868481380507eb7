// Line icons on a grid of 20, drawn for this page.

const PATHS = {
  home: "M3 9.5 10 4l7 5.5M5 8.5V16h10V8.5",
  tasks: "M4 5h2M9 5h7M4 10h2M9 10h7M4 15h2M9 15h7",
  disk: "M4 5.500C4 4 6.500 3 10 3s6 1 6 2.500S13.500 8 10 8 4 7 4 5.500zM4 5.500v9C4 16 6.500 17 10 17s6-1 6-2.500v-9",
  plus: "M10 4v12M4 10h12",
  machine: "M3 5h14v8H3zM7 16h6M10 13v3",
  coins: "M10 3c4 0 6 1.3 6 2.8S14 8.5 10 8.5 4 7.300 4 5.800 6 3 10 3zM4 6v4c0 1.500 2 2.800 6 2.800s6-1.300 6-2.800V6M4 10v4c0 1.500 2 2.800 6 2.800s6-1.300 6-2.800v-4",
  market: "M3 16V9M8 16V4M13 16v-5M17.500 16H2.500",
  key: "M12.500 7.500m-3.500 0a3.500 3.500 0 1 0 7 0a3.500 3.500 0 1 0-7 0M10 10l-6 6M6 14l2 2",
  hook: "M7 8a3.500 3.500 0 1 1 5 3l-1 2M4 13.500h3M13 15.500m-2.500 0a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0-5 0M8 12a3 3 0 1 0 0 4",
  user: "M10 7m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M4 17c.500-3.500 3-5 6-5s5.500 1.500 6 5",
  pulse: "M2.500 10H6l2-5 4 10 2-5h3.500",
  bell: "M5 13.500V9a5 5 0 0 1 10 0v4.500l1.500 1.500h-13zM8.500 17h3",
  book: "M4 4h5a2 2 0 0 1 1 .500A2 2 0 0 1 11 4h5v11h-5a1 1 0 0 0-1 1 1 1 0 0 0-1-1H4zM10 4.500V16",
  menu: "M3 6h14M3 10h14M3 14h14",
  close: "M5 5l10 10M15 5 5 15",
  sun: "M10 10m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0M10 2.500v2M10 15.500v2M2.500 10h2M15.500 10h2M4.700 4.700l1.400 1.400M13.900 13.900l1.400 1.400M4.700 15.300l1.400-1.400M13.900 6.100l1.400-1.400",
  moon: "M16 11.500A6.500 6.500 0 1 1 8.500 4a5 5 0 0 0 7.500 7.500z",
  pause: "M7 4.500v11M13 4.500v11",
  play: "M6 4l10 6-10 6z",
  copy: "M7 7h9v9H7zM13 7V4H4v9h3",
  check: "M4 10.500 8 14.500 16 5.500",
  search: "M9 9m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0M13 13l4 4",
  download: "M10 3v9M6 8.500l4 4 4-4M4 16.500h12",
  retry: "M15.500 8A6 6 0 1 0 16 11.500M16 4v4h-4",
  stop: "M5.500 5.500h9v9h-9z",
  file: "M5 3h7l3 3v11H5zM12 3v3h3",
  external: "M8 4H4v12h12v-4M11 4h5v5M16 4l-7 7",
  out: "M8 4H4v12h4M12 7l3 3-3 3M15 10H8",
  shield: "M10 3l6 2v5c0 3.500-2.500 6-6 7-3.500-1-6-3.500-6-7V5z",
  list: "M4 4h12v12H4zM4 8h12M8 8v8",
  chevron: "M7 5l5 5-5 5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, className = "size-4" }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.6"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={`shrink-0 ${className}`}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
